//===- Backend.h - Interface of a device library -------------- -*- C++ -*-===//
//
// The interface of a device library such as libfsdp_cuda.so. The library is loaded when a run asks
// for its device, so that the same training binary also starts on machines without the library or
// the driver.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_BACKEND_H
#define FSDP_RUNTIME_BACKEND_H

#include "comm/Communicator.h"
#include "comm/FakeCommunicator.h"

namespace fsdp::rt {

struct DeviceOptions {
  unsigned ordinal = 0; // among the devices of this host
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

  /// The number of devices of this host; an error says why none can be used.
  virtual Result<unsigned> countDevices() = 0;
  /// The name of device `ordinal` of this host: "NVIDIA H100 80GB HBM3".
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

/// The function that a device library exports as "fsdp_device_backend_8". The number changes with
/// any interface of the runtime that the library uses. The returned object lives as long as the
/// library, which stays loaded.
using GetDeviceBackend = DeviceBackend *();
inline constexpr const char *kGetDeviceBackend = "fsdp_device_backend_8";

/// Loads the library of `--device <device>`, libfsdp_<device>.so beside the runtime's own library;
/// null for "cpu", which needs no library. An error is one line with the flag, and the loader's
/// message about the file or the reason why no device can be used.
Result<DeviceBackend *> loadDeviceBackend(const std::string &device);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_BACKEND_H
