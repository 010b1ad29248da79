//===- CudaBackend.cpp - What libfsdp_cuda.so gives to the runtime --------===//

#include "cuda/CudaFakeTransport.h"
#include "cuda/NcclCommunicator.h"
#include "cuda/RealCudaCalls.h"

using namespace fsdp::rt;

namespace {
class CudaBackend final : public DeviceBackend {
public:
  Result<unsigned> countDevices() override { return CudaDevice::count(realCudaCalls()); }

  Result<std::string> nameDevice(unsigned ordinal) override {
    return CudaDevice::nameOf(realCudaCalls(), static_cast<int>(ordinal));
  }

  Result<std::unique_ptr<Device>> openDevice(DeviceOptions options) override {
    auto device = CudaDevice::open(realCudaCalls(), {.ordinal = static_cast<int>(options.ordinal),
                                                     .timedEvents = options.timedEvents});
    if (!device.ok())
      return device.status();
    return std::unique_ptr<Device>(std::move(*device));
  }

  Result<std::unique_ptr<Communicator>> connectDevices(Device &device,
                                                       std::unique_ptr<Communicator> control,
                                                       NcclOptions options) override {
    auto communicator =
        NcclCommunicator::connect(static_cast<CudaDevice &>(device), std::move(control), options);
    if (!communicator.ok())
      return communicator.status();
    return std::unique_ptr<Communicator>(std::move(*communicator));
  }

  Result<std::unique_ptr<Communicator>> makeFakeCommunicator(Device &device,
                                                             FakeOptions options) override {
    return FakeCommunicator::create(
        options, std::make_unique<CudaFakeTransport>(static_cast<CudaDevice &>(device)));
  }
};
} // namespace

extern "C" DeviceBackend *fsdp_device_backend_7() {
  static CudaBackend backend;
  return &backend;
}
