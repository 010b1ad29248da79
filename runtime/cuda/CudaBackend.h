//===- CudaBackend.h - The device library's backend for CUDA -- -*- C++ -*-===//

#ifndef FSDP_RUNTIME_CUDA_CUDABACKEND_H
#define FSDP_RUNTIME_CUDA_CUDABACKEND_H

#include "backend/Backend.h"
#include "cuda/CudaCalls.h"

#include <functional>

namespace fsdp::rt {

class CudaBackend : public DeviceBackend {
public:
  /// `callsOfDevice` is called for each device that is opened, and for queries about all devices.
  /// Its result outlives the object. Also sets NCCL's order of launches in the environment, so it
  /// must be made before other threads start.
  explicit CudaBackend(std::function<CudaCalls &()> callsOfDevice);

  Result<unsigned> countDevices() override;
  Result<std::string> nameDevice(unsigned ordinal) override;
  Result<std::unique_ptr<Device>> openDevice(DeviceOptions options) override;
  Result<std::unique_ptr<Communicator>> connectDevices(Device &device,
                                                       std::unique_ptr<Communicator> control,
                                                       NcclOptions options) override;
  Result<std::unique_ptr<Communicator>> makeFakeCommunicator(Device &device,
                                                             FakeOptions options) override;

private:
  std::function<CudaCalls &()> callsOfDevice;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CUDA_CUDABACKEND_H
