//===- CudaUpdates.cpp - The optimizer on a GPU ---------------------------===//

#include "cuda/CudaUpdates.h"
#include "DType.h"
#include "fsdp/Plan/Optimizers.h"
#include "plan/PlanView.h"

#include <algorithm>
#include <limits>

using namespace fsdp::rt;

template <typename Arguments>
Status CudaUpdates::launch(const Arguments &arguments, const char *name) {
  if (!compute.error().ok())
    return compute.error();
  CudaCalls &calls = device.cuda();
  return compute.note(checkCuda(calls, calls.launchKernel(arguments, compute.native()),
                                std::string("the kernel ") + name));
}

/// Shards hold only the states that the optimizer's options ask for; the kernel has a place for
/// each that the kind may have.
static void placeStates(const fsdp_optimizer &optimizer, const ShardBuffers &shard,
                        OptimizerUpdateArguments &kernel) {
  const auto &states = fsdp::plan::kindOf(optimizer).states;
  const auto kept = optimizerStateNames(optimizer);
  for (int i = 0; i < FSDP_MAX_STATES; ++i) {
    const auto found = std::ranges::find(kept, states[i].name);
    if (states[i].name.empty() || found == kept.end())
      continue;
    kernel.state[i] = shard.state[found - kept.begin()];
    kernel.stateDtype[i] = shard.stateDtype[found - kept.begin()];
  }
}

static float clipValueOf(const fsdp_optimizer &optimizer, fsdp_dtype dtype) {
  return optimizer.clip_grad_value != 0 ? static_cast<float>(clipValueIn(dtype, optimizer))
                                        : std::numeric_limits<float>::infinity();
}

Status CudaUpdates::add(const fsdp_optimizer &optimizer, uint32_t index, const ShardBuffers &shard,
                        const std::string &name) {
  if (shard.dtype != FSDP_F32 && shard.dtype != FSDP_BF16 && shard.dtype != FSDP_F16)
    return Status::error("group \"" + name + "\": no kernel updates shards of " +
                         dtypeName(shard.dtype) + " on a CUDA device; f32, bf16 and f16 are");
  optimizers.try_emplace(index, optimizer);
  Update update{};
  // For 0 elements nothing is launched.
  const int64_t counted = shard.countsInNorm ? shard.elements : 0;
  update.norm = {shard.gradients, shard.gradientDtype, counted, nullptr, FSDP_NORM_2};
  update.firstPartial = partials;
  partials += partialNormBlocks(counted);
  update.kernel = {.kind = optimizer.kind,
                   .elements = shard.elements,
                   .parameters = shard.parameters,
                   .gradients = shard.gradients,
                   .gradientDtype = shard.gradientDtype,
                   .state = {},
                   .gathered = shard.gathered,
                   .gatheredDtype = shard.gatheredDtype,
                   .scalars = scalars + index,
                   .clipFactor = nullptr,
                   .sign = optimizer.options & FSDP_MAXIMIZE ? -1.f : 1.f,
                   .clipValue = clipValueOf(optimizer, shard.dtype),
                   .dtype = shard.dtype};
  placeStates(optimizer, shard, update.kernel);
  update.average = {.average = shard.average,
                    .averageDtype = shard.averageDtype,
                    .parameters = shard.parameters,
                    .dtype = shard.dtype,
                    .scalars = scalars + index,
                    .elements = shard.average ? shard.elements : 0};
  updates.push_back(update);
  return {};
}

Status CudaUpdates::writeGathered() {
  for (const ShardBuffers &shard : frozen) {
    AccumulateArguments cast{
        shard.gathered, shard.gatheredDtype, 0, shard.parameters, shard.dtype, 1, shard.elements};
    if (Status status = launch(cast, "accumulate"); !status.ok())
      return status;
  }
  for (const Update &update : updates) {
    const OptimizerUpdateArguments &kernel = update.kernel;
    if (!kernel.gathered)
      continue;
    AccumulateArguments cast{kernel.gathered,   kernel.gatheredDtype, 0,
                             kernel.parameters, kernel.dtype,         1,
                             kernel.elements};
    if (Status status = launch(cast, "accumulate"); !status.ok())
      return status;
  }
  return {};
}

OptimizerScalars CudaUpdates::scalarsOf(uint32_t index, int64_t step, double learningRate) {
  const auto found = optimizers.find(index);
  return found == optimizers.end() ? OptimizerScalars{} : found->second.at(step, learningRate);
}

Status CudaUpdates::begin() {
  isNormTaken = false;
  for (Update &update : updates)
    update.isNormAhead = false;
  if (updates.empty())
    return {};
  if (!parts) {
    // Allocated in the first step, when all updates are known.
    Result<std::unique_ptr<Memory>> made =
        device.allocate(static_cast<size_t>(std::max<int64_t>(partials, 1)) * sizeof(double));
    if (!made.ok())
      return made.status();
    parts = std::move(*made);
    for (Update &update : updates)
      update.norm.partials = reinterpret_cast<double *>(parts->data()) + update.firstPartial;
  }
  return {};
}

Status CudaUpdates::shardNorm(size_t index, fsdp_norm_type type, int64_t shiftBytes) {
  Update &update = updates[index];
  update.isNormAhead = true;
  PartialNormArguments norm = update.norm;
  norm.type = type;
  norm.gradients = static_cast<const std::byte *>(norm.gradients) + shiftBytes;
  return launch(norm, "partialNorm");
}

Status CudaUpdates::partialNorm(fsdp_norm_type type, double *part) {
  normType = type;
  for (Update &update : updates) {
    if (update.isNormAhead)
      continue;
    update.norm.type = type;
    if (Status status = launch(update.norm, "partialNorm"); !status.ok())
      return status;
  }
  isNormTaken = true;
  return end(part);
}

Status CudaUpdates::clip(fsdp_norm_type type, const double *total, float maxNorm,
                         const float *lossScale) {
  if (!factors) {
    // Allocated in the first step, so that a graph has its address.
    Result<std::unique_ptr<Memory>> made = device.allocate(2 * sizeof(float));
    if (!made.ok())
      return made.status();
    factors = std::move(*made);
  }
  auto *clipFactor = reinterpret_cast<float *>(factors->data());
  float *inverseScale = lossScale ? clipFactor + 1 : nullptr;
  for (Update &update : updates) {
    update.kernel.clipFactor = clipFactor;
    update.kernel.inverseScale = inverseScale;
    update.average.clipFactor = lossScale ? clipFactor : nullptr;
  }
  return launch(ClipFactorArguments{total, maxNorm, clipFactor, /*norm=*/nullptr, type, lossScale,
                                    inverseScale},
                "clipFactor");
}

Status CudaUpdates::run(size_t index) {
  const Update &update = updates[index];
  if (!isNormTaken)
    if (Status status = launch(update.norm, "partialNorm"); !status.ok())
      return status;
  if (Status status = launch(update.kernel, "optimizerUpdate");
      !status.ok() || update.average.elements == 0)
    return status;
  return launch(update.average, "average");
}

Status CudaUpdates::end(double *part) {
  if (updates.empty())
    return {};
  return launch(JoinPartialsArguments{reinterpret_cast<const double *>(parts->data()), partials,
                                      part, normType},
                "joinPartials");
}
