//===- KernelEffects.cpp - The kernels, run on the host -------------------===//

#include "KernelEffects.h"
#include "KernelReference.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/sqrt.h>

#include <algorithm>
#include <numeric>

using namespace fsdp::rt;

static std::vector<float> read(const void *values, int64_t count) {
  const auto *first = static_cast<const float *>(values);
  return first ? std::vector<float>(first, first + count) : std::vector<float>();
}

static void takeTorchRoots(std::vector<float> &values) {
  at::Tensor tensor = at::from_blob(values.data(), {static_cast<int64_t>(values.size())});
  at::sqrt_(tensor);
}

void fsdp::rt::runOnHost(const OptimizerScalarsArguments &a) {
  *a.scalars = referenceScalars(a.optimizer, *a.inputs);
}

void fsdp::rt::runOnHost(const OptimizerUpdateArguments &a) {
  ReferenceShard shard{read(a.parameters, a.elements),
                       {read(a.state[0], a.elements), read(a.state[1], a.elements)}};
  referenceUpdate(a.kind, *a.scalars, a.clipFactor ? *a.clipFactor : 1,
                  read(a.gradients, a.elements), shard, takeTorchRoots);
  std::ranges::copy(shard.parameters, a.parameters);
  for (int i = 0; i < 2; ++i)
    if (a.state[i])
      std::ranges::copy(shard.state[i], a.state[i]);
}

void fsdp::rt::runOnHost(const SquareSumArguments &a) {
  std::fill(a.partials, a.partials + squareSumBlocks(a.elements), 0.0);
  if (a.elements)
    a.partials[0] = referenceSquareSum(read(a.gradients, a.elements));
}

void fsdp::rt::runOnHost(const SumPartialsArguments &a) {
  *a.total = std::accumulate(a.partials, a.partials + a.count, 0.0);
}
