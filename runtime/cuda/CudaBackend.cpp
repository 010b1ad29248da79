//===- CudaBackend.cpp - The device library's backend for CUDA ------------===//

#include "cuda/CudaBackend.h"
#include "cuda/CudaFakeTransport.h"
#include "cuda/NcclCommunicator.h"

#include <cstdlib>

using namespace fsdp::rt;

CudaBackend::CudaBackend(std::function<CudaCalls &()> callsOfDevice)
    : callsOfDevice(std::move(callsOfDevice)) {
  // Each lane has a communicator, and lanes run at the same time. NCCL guarantees that this does not
  // deadlock only if it starts collectives in the order in which the host issues them, which the
  // ranks have compared (docs/cuda.md). A value that the user has set stays.
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", /*overwrite=*/0);
}

Result<unsigned> CudaBackend::countDevices() { return CudaDevice::count(callsOfDevice()); }

Result<std::string> CudaBackend::nameDevice(unsigned ordinal) {
  return CudaDevice::nameOf(callsOfDevice(), static_cast<int>(ordinal));
}

Result<std::unique_ptr<Device>> CudaBackend::openDevice(DeviceOptions options) {
  auto device = CudaDevice::open(callsOfDevice(), {.ordinal = static_cast<int>(options.ordinal),
                                                   .timedEvents = options.timedEvents});
  if (!device.ok())
    return device.status();
  return std::unique_ptr<Device>(std::move(*device));
}

Result<std::unique_ptr<Communicator>>
CudaBackend::connectDevices(Device &device, std::unique_ptr<Communicator> control,
                            NcclOptions options) {
  auto communicator =
      NcclCommunicator::connect(static_cast<CudaDevice &>(device), std::move(control), options);
  if (!communicator.ok())
    return communicator.status();
  return std::unique_ptr<Communicator>(std::move(*communicator));
}

Result<std::unique_ptr<Communicator>> CudaBackend::makeFakeCommunicator(Device &device,
                                                                        FakeOptions options) {
  return FakeCommunicator::create(
      options, std::make_unique<CudaFakeTransport>(static_cast<CudaDevice &>(device)));
}
