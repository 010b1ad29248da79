//===- RecordedBackend.cpp - A libfsdp_cuda.so without a GPU --------------===//
//
// What a training binary loads for --device cuda where this library lies beside the runtime's: each
// rank has a recorded device, and collectives happen between the ranks' processes or threads.
//
//===----------------------------------------------------------------------===//

#include "RecordingCalls.h"
#include "cuda/CudaFakeTransport.h"
#include "cuda/NcclCommunicator.h"

using namespace fsdp::rt;

/// Of the program that runs (RecordedTrain.cpp): the plan whose generated kernels are launched.
extern "C" const fsdp_plan *fsdp_recorded_plan;

namespace {
class RecordedBackend final : public DeviceBackend {
public:
  Result<unsigned> countDevices() override { return 4u; }
  Result<std::string> nameDevice(unsigned) override { return RecordingCalls().deviceName; }

  Result<std::unique_ptr<Device>> openDevice(DeviceOptions options) override {
    RecordingCalls *own;
    {
      std::lock_guard lock(mutex);
      own = calls.emplace_back(std::make_unique<RecordingCalls>()).get();
    }
    own->plan = fsdp_recorded_plan;
    auto device = CudaDevice::open(
        *own, {.ordinal = static_cast<int>(options.ordinal), .timedEvents = options.timedEvents});
    if (!device.ok())
      return device.status();
    return std::unique_ptr<Device>(std::move(*device));
  }

  Result<std::unique_ptr<Communicator>> connectDevices(Device &device,
                                                       std::unique_ptr<Communicator> control,
                                                       NcclOptions options) override {
    auto &own = static_cast<CudaDevice &>(device);
    static_cast<RecordingCalls &>(own.cuda()).exchange = control.get();
    auto communicator = NcclCommunicator::connect(own, std::move(control), options);
    if (!communicator.ok())
      return communicator.status();
    return std::unique_ptr<Communicator>(std::move(*communicator));
  }

  Result<std::unique_ptr<Communicator>> makeFakeCommunicator(Device &device,
                                                             FakeOptions options) override {
    return FakeCommunicator::create(
        options, std::make_unique<CudaFakeTransport>(static_cast<CudaDevice &>(device)));
  }

private:
  std::mutex mutex;
  std::vector<std::unique_ptr<RecordingCalls>> calls; // devices use them to the end
};
} // namespace

extern "C" DeviceBackend *fsdp_device_backend_7() {
  static RecordedBackend backend;
  return &backend;
}
