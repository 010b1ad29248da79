//===- RecordedBackend.cpp - A libfsdp_cuda.so without a GPU --------------===//
//
// What a training binary loads for --device cuda where this library lies beside the runtime's: each
// rank has a recorded device, and collectives happen between the ranks' processes or threads.
//
//===----------------------------------------------------------------------===//

#include "RecordingCalls.h"
#include "cuda/CudaBackend.h"
#include "cuda/CudaDevice.h"

using namespace fsdp::rt;

/// Of the program that runs (RecordedTrain.cpp): the plan whose generated kernels are launched.
extern "C" const fsdp_plan *fsdp_recorded_plan;

/// They live to the end: devices use them.
static CudaCalls &makeCalls() {
  static std::mutex mutex;
  static std::vector<std::unique_ptr<RecordingCalls>> calls;
  std::lock_guard lock(mutex);
  RecordingCalls &own = *calls.emplace_back(std::make_unique<RecordingCalls>());
  own.plan = fsdp_recorded_plan;
  return own;
}

namespace {
class RecordedBackend final : public CudaBackend {
public:
  RecordedBackend() : CudaBackend(makeCalls) {}

  Result<std::unique_ptr<Communicator>> connectDevices(Device &device,
                                                       std::unique_ptr<Communicator> control,
                                                       NcclOptions options) override {
    CudaCalls &calls = static_cast<CudaDevice &>(device).cuda();
    static_cast<RecordingCalls &>(calls).exchange = control.get();
    return CudaBackend::connectDevices(device, std::move(control), options);
  }
};
} // namespace

extern "C" DeviceBackend *fsdp_device_backend_8() {
  static RecordedBackend backend;
  return &backend;
}
