//===- KernelArguments.cpp - Checks and launch geometry, without a device -===//

#include "cuda/kernels/Kernels.h"
#include "fsdp/Plan/Optimizers.h"
#include "plan/NormType.h"

#include <algorithm>

using namespace fsdp::rt;

/// Blocks per multiprocessor: several times the number that runs at once (6 to 8), so that all
/// multiprocessors end at about the same time.
static constexpr int64_t kBlocksPerMultiprocessor = 32;
static constexpr int64_t kMaxPartialNormBlocks = 1024;
/// With fewer elements per thread than this, more blocks cost more than they gain.
static constexpr int64_t kPartialNormElements = 16;

static int64_t ceilDiv(int64_t a, int64_t b) { return a / b + (a % b != 0); }

int64_t fsdp::rt::partialNormBlocks(int64_t elements) {
  return std::min(ceilDiv(elements, kKernelThreads * kPartialNormElements), kMaxPartialNormBlocks);
}

int64_t fsdp::rt::elementwiseBlocks(int64_t elements, int width, int multiprocessors) {
  return std::min(ceilDiv(elements, int64_t(kKernelThreads) * width),
                  multiprocessors * kBlocksPerMultiprocessor);
}

static cudaError_t validIf(bool valid) { return valid ? cudaSuccess : cudaErrorInvalidValue; }

static bool isFloat(fsdp_dtype dtype) {
  return dtype == FSDP_F32 || dtype == FSDP_BF16 || dtype == FSDP_F16;
}

/// True if the states are there that the optimizer has with any options.
static bool hasStates(const OptimizerUpdateArguments &a) {
  const fsdp::plan::OptimizerKind &kind = fsdp::plan::kOptimizerKinds[a.kind];
  for (int i = 0; i < FSDP_MAX_STATES; ++i)
    if (!a.state[i] && !kind.states[i].name.empty() && kind.states[i].option.empty())
      return false;
  return true;
}

cudaError_t fsdp::rt::checkArguments(const OptimizerUpdateArguments &a) {
  if (a.kind >= FSDP_NUM_OPTIMIZER_KINDS || a.elements < 0 || !a.scalars)
    return cudaErrorInvalidValue;
  if (a.inverseScale && !a.clipFactor)
    return cudaErrorInvalidValue;
  if (!isFloat(a.gradientDtype) || !(a.clipValue >= 0))
    return cudaErrorInvalidValue;
  if (a.gathered && !isFloat(a.gatheredDtype))
    return cudaErrorInvalidValue;
  if (!isFloat(a.dtype) || (a.dtype != FSDP_F32 && (a.gathered || a.gradientDtype != a.dtype)))
    return cudaErrorInvalidValue;
  for (int i = 0; i < FSDP_MAX_STATES; ++i)
    if (a.state[i] && a.stateDtype[i] != a.dtype && a.stateDtype[i] != FSDP_F32 &&
        a.stateDtype[i] != FSDP_BF16)
      return cudaErrorInvalidValue;
  if (a.elements == 0)
    return cudaSuccess;
  return validIf(a.parameters && a.gradients && hasStates(a));
}

cudaError_t fsdp::rt::checkArguments(const AverageArguments &a) {
  return validIf(isFloat(a.averageDtype) && isFloat(a.dtype) && a.scalars && a.elements >= 0 &&
                 (a.elements == 0 || (a.average && a.parameters)));
}

cudaError_t fsdp::rt::checkArguments(const PartialNormArguments &a) {
  return validIf(isFloat(a.dtype) && normTypeName(a.type) && a.elements >= 0 &&
                 (a.elements == 0 || (a.gradients && a.partials)));
}

cudaError_t fsdp::rt::checkArguments(const JoinPartialsArguments &a) {
  return validIf(normTypeName(a.type) && a.count >= 0 && (a.count == 0 || a.partials) && a.total);
}

cudaError_t fsdp::rt::checkArguments(const ClipFactorArguments &a) {
  return validIf(normTypeName(a.type) && a.total && a.clipFactor &&
                 !a.lossScale == !a.inverseScale &&
                 (a.maxNorm > 0 || (a.maxNorm == 0 && a.lossScale)));
}

cudaError_t fsdp::rt::checkArguments(const AccumulateArguments &a) {
  return validIf(isFloat(a.toDtype) && isFloat(a.fromDtype) && a.elements >= 0 &&
                 (a.elements == 0 || (a.to && a.from)));
}
