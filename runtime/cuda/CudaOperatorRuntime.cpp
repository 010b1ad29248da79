//===- CudaOperatorRuntime.cpp - Operators on a GPU -----------------------===//

#include "cuda/CudaOperatorRuntime.h"
#include "executor/Random.h"

#include <algorithm>
#include <cstring>

using namespace fsdp::rt;

namespace {
/// The words begin with a 0, then come the scalars of each optimizer of the plan, then the seeds.
using Zero = int64_t;
} // namespace

Status CudaOperatorRuntime::prepare(const OperatorContext &context) {
  compute = &static_cast<CudaStream &>(context.compute);
  rank = context.rank;
  draws.assign(context.draws.begin(), context.draws.end());
  optimizers = context.optimizers;
  size_t bytes = fixedBytes() + draws.size() * sizeof(uint64_t);
  Result<std::unique_ptr<Memory>> memory = device.allocate(bytes);
  if (!memory.ok())
    return memory.status();
  words = std::move(*memory);
  auto made = Staging::create(device, {{words->data(), bytes}}, context.slots);
  if (!made.ok())
    return made.status();
  staging = std::move(*made);
  updates.emplace(device, *compute,
                  reinterpret_cast<const OptimizerScalars *>(words->data() + sizeof(Zero)));
  calls.installTorchPlacement();
  return {};
}

size_t CudaOperatorRuntime::fixedBytes() const {
  return sizeof(Zero) + optimizers * sizeof(OptimizerScalars);
}

void CudaOperatorRuntime::setInputs(const StepInputs &next) {
  inputs = next;
  std::byte *host = staging->host(0);
  std::memset(host, 0, sizeof(Zero));
  auto *scalars = reinterpret_cast<OptimizerScalars *>(host + sizeof(Zero));
  for (unsigned i = 0; i < optimizers; ++i)
    scalars[i] = updates->scalarsOf(i, inputs.update(), inputs.learningRateOf(i));
  auto *seeds = reinterpret_cast<uint64_t *>(host + fixedBytes());
  for (int64_t position : draws)
    *seeds++ = drawSeed(inputs.seed, inputs.step, rank, position);
  staging->enqueue(*compute);
}

void CudaOperatorRuntime::beginDraw(int64_t position) {
  auto index = std::lower_bound(draws.begin(), draws.end(), position) - draws.begin();
  const std::byte *fixed = words->data();
  calls.beginTorchDraw(device.ordinal(),
                       {drawSeed(inputs.seed, inputs.step, rank, position),
                        reinterpret_cast<const int64_t *>(fixed + fixedBytes()) + index,
                        reinterpret_cast<const Zero *>(fixed)});
}
