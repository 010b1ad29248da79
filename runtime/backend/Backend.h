//===- Backend.h - A device's library ---------------------------*- C++ -*-===//
//
// What a library such as libfsdp_cuda.so gives to the runtime. It is loaded when a run asks for its
// device, so that the same training binary starts where neither library nor driver is.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_BACKEND_H
#define FSDP_RUNTIME_BACKEND_H

#include "comm/Communicator.h"
#include "comm/FakeCommunicator.h"

namespace fsdp::rt {

struct DeviceOptions {
  unsigned ordinal = 0; // of the devices of this host
  bool timedEvents = false;
};

struct NcclOptions {
  CommunicatorOptions communication = {};
  /// All ranks run on one host, which lanes of gathers by copy engines need.
  bool oneHost = false;
};

class DeviceBackend {
public:
  virtual ~DeviceBackend() = default;

  /// The devices of this host; an error says why there are none to be used.
  virtual Result<unsigned> countDevices() = 0;
  /// What device `ordinal` of this host calls itself: "NVIDIA H100 80GB HBM3".
  virtual Result<std::string> nameDevice(unsigned ordinal) = 0;
  /// Opens a device for the calling thread.
  virtual Result<std::unique_ptr<Device>> openDevice(DeviceOptions options) = 0;
  /// Collectives between devices. `control` connects the ranks' hosts and carries the control lane.
  virtual Result<std::unique_ptr<Communicator>>
  connectDevices(Device &device, std::unique_ptr<Communicator> control, NcclOptions options) = 0;
  /// The collectives of a model's ranks on one device.
  virtual Result<std::unique_ptr<Communicator>> makeFakeCommunicator(Device &device,
                                                                     FakeOptions options) = 0;
};

/// What such a library exports, as "fsdp_device_backend_8". The number changes with any interface
/// of the runtime that it uses; the object lives as long as the library, which stays loaded.
using GetDeviceBackend = DeviceBackend *();
inline constexpr const char *kGetDeviceBackend = "fsdp_device_backend_8";

/// Loads the library of `--device <device>`, libfsdp_<device>.so beside the runtime's own library;
/// null for "cpu", which needs none. One line of error: the flag, and what the loader says of the
/// file or why there is no device to be used.
Result<DeviceBackend *> loadDeviceBackend(const std::string &device);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_BACKEND_H
