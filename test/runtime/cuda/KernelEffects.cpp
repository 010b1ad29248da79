//===- KernelEffects.cpp - The kernels, run on the host -------------------===//

#include "KernelEffects.h"
#include "KernelReference.h"
#include "plan/NormType.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace fsdp::rt;

static at::Tensor tensorAt(const void *values, fsdp_dtype dtype, int64_t count) {
  return at::from_blob(const_cast<void *>(values), {count}, static_cast<at::ScalarType>(dtype));
}

static std::vector<float> read(const void *values, int64_t count, fsdp_dtype dtype = FSDP_F32) {
  if (!values)
    return {};
  at::Tensor wide = tensorAt(values, dtype, count).to(at::kFloat);
  const auto *first = wide.const_data_ptr<float>();
  return std::vector<float>(first, first + count);
}

/// True if gradients of the parameters' dtype are clipped in it.
static bool roundsClipped(const OptimizerUpdateArguments &a) {
  bool isOwn = false;
  for (int i = 0; i < FSDP_MAX_STATES; ++i)
    isOwn |= a.state[i] && a.stateDtype[i] != a.dtype;
  return isOwn && a.dtype != FSDP_F32;
}

/// True if a step with a loss scale updates nothing.
static bool leavesOut(const float *scaledFactor) {
  return scaledFactor && std::isnan(*scaledFactor);
}

/// Clips gradients as numbers of `dtype`; what is left to multiply them by is 1.
static float clipRounded(std::vector<float> &gradients, float clip, fsdp_dtype dtype) {
  for (float &gradient : gradients)
    gradient = rounded(gradient * rounded(clip, dtype), dtype);
  return 1;
}

void fsdp::rt::runOnHost(const OptimizerUpdateArguments &a) {
  ReferenceShard shard{read(a.parameters, a.elements, a.dtype),
                       {read(a.state[0], a.elements, a.stateDtype[0]),
                        read(a.state[1], a.elements, a.stateDtype[1]),
                        read(a.state[2], a.elements, a.stateDtype[2])}};
  std::vector<float> gradients = read(a.gradients, a.elements, a.gradientDtype);
  auto write = [&](void *to, fsdp_dtype dtype, const std::vector<float> &values) {
    if (to)
      tensorAt(to, dtype, a.elements).copy_(tensorAt(values.data(), FSDP_F32, a.elements));
  };
  if (leavesOut(a.inverseScale ? a.clipFactor : nullptr))
    return write(a.gathered, a.gatheredDtype, shard.parameters);
  if (a.inverseScale)
    clipRounded(gradients, *a.inverseScale, a.dtype);
  clipValues(gradients, a.clipValue);
  float clip = a.clipFactor ? *a.clipFactor : 1;
  if (roundsClipped(a))
    clip = clipRounded(gradients, clip, a.dtype);
  referenceUpdate(a.kind, *a.scalars, clip * a.sign, gradients, shard, Roots::Torchs);
  write(a.parameters, a.dtype, shard.parameters);
  write(a.gathered, a.gatheredDtype, shard.parameters);
  for (int i = 0; i < FSDP_MAX_STATES; ++i)
    write(a.state[i], a.stateDtype[i], shard.state[i]);
}

void fsdp::rt::runOnHost(const AverageArguments &a) {
  if (leavesOut(a.clipFactor))
    return;
  at::Tensor average = tensorAt(a.average, a.averageDtype, a.elements);
  at::Tensor parameters = tensorAt(a.parameters, a.dtype, a.elements).to(at::kFloat);
  const AverageScalars &scalars = a.scalars->average;
  average.copy_(scalars.firstStep ? parameters
                                  : average.to(at::kFloat).lerp(parameters, scalars.weight));
}

void fsdp::rt::runOnHost(const PartialNormArguments &a) {
  std::fill(a.partials, a.partials + partialNormBlocks(a.elements), 0.0);
  if (a.elements)
    a.partials[0] = referencePartialNorm(a.type, read(a.gradients, a.elements, a.dtype));
}

void fsdp::rt::runOnHost(const JoinPartialsArguments &a) {
  *a.total = std::accumulate(a.partials, a.partials + a.count, 0.0, [&](double part, double next) {
    return joinNormParts(a.type, part, next);
  });
}

void fsdp::rt::runOnHost(const AccumulateArguments &a) {
  at::Tensor to = tensorAt(a.to, a.toDtype, a.elements);
  at::Tensor sum = tensorAt(a.from, a.fromDtype, a.elements).to(at::kFloat).mul(a.fromScale);
  if (a.toScale != 0)
    sum.add_(to.to(at::kFloat), a.toScale);
  to.copy_(sum);
}

void fsdp::rt::runOnHost(const ClipFactorArguments &a) {
  float inverse = 1;
  if (a.lossScale)
    inverse = *a.inverseScale = static_cast<float>(1 / static_cast<double>(*a.lossScale));
  *a.clipFactor = a.lossScale && !std::isfinite(*a.total) ? std::nanf("")
                  : a.maxNorm == 0 ? 1
                                   : referenceClipFactor(a.type, *a.total, a.maxNorm, inverse);
  if (a.norm)
    *a.norm = static_cast<float>(normOfPart(a.type, *a.total) * inverse);
}
