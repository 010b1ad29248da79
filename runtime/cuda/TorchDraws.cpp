//===- TorchDraws.cpp - Random numbers of operators on a GPU --------------===//

#include "cuda/TorchDraws.h"

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/ops/from_blob.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>

#include <map>
#include <mutex>

using namespace fsdp::rt;
using State = c10::intrusive_ptr<at::CUDAGeneratorState>;

/// The state that the default generator of `device` gets at the first call and keeps.
static const State &stateOf(int device) {
  static std::mutex mutex;
  static std::map<int, State> states;
  std::lock_guard lock(mutex);
  auto [found, isNew] = states.try_emplace(device);
  if (isNew) {
    auto index = static_cast<c10::DeviceIndex>(device);
    found->second = c10::make_intrusive<at::CUDAGeneratorState>();
    at::Generator generator = at::cuda::detail::getDefaultCUDAGenerator(index);
    generator.unsafeGetGeneratorImpl()->graphsafe_set_state(
        c10::make_intrusive<at::CUDAGeneratorImpl>(index, found->second));
  }
  return found->second;
}

static at::Tensor tensorOf(const int64_t *word, int device) {
  c10::Device place(c10::kCUDA, static_cast<c10::DeviceIndex>(device));
  return at::for_blob(const_cast<int64_t *>(word), {1})
      .options(at::TensorOptions(place).dtype(at::kLong))
      .target_device(place)
      .make_tensor();
}

void fsdp::rt::beginTorchDraw(int device, const TorchDraw &draw) {
  at::CUDAGeneratorState &state = *stateOf(device);
  state.capturing_ =
      c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None;
  state.seed_ = draw.seed;
  state.philox_offset_per_thread_ = state.offset_intragraph_ = 0;
  if (!state.capturing_)
    return;
  state.seed_extragraph_ = tensorOf(draw.seedWord, device);
  state.offset_extragraph_ = tensorOf(draw.zeroWord, device);
}

void fsdp::rt::endTorchDraw(int device) { stateOf(device)->capturing_ = false; }
