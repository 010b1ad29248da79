//===- CudaOperatorRuntime.cpp - Operators on a GPU -----------------------===//

#include "cuda/CudaOperatorRuntime.h"
#include "executor/Random.h"

#include <algorithm>
#include <cstring>

using namespace fsdp::rt;

namespace {
/// What the words begin with; the seeds follow.
struct FixedWords {
  OptimizerInputs optimizer;
  int64_t zero;
};
} // namespace

Status CudaOperatorRuntime::prepare(const OperatorContext &context) {
  compute = &static_cast<CudaStream &>(context.compute);
  rank = context.rank;
  draws.assign(context.draws.begin(), context.draws.end());
  size_t bytes = sizeof(FixedWords) + draws.size() * sizeof(uint64_t);
  Result<std::unique_ptr<Memory>> memory = device.allocate(bytes);
  if (!memory.ok())
    return memory.status();
  words = std::move(*memory);
  auto made = Staging::create(device, {{words->data(), bytes}}, context.slots);
  if (!made.ok())
    return made.status();
  staging = std::move(*made);
  auto *fixed = reinterpret_cast<const FixedWords *>(words->data());
  updates.emplace(device, *compute, &fixed->optimizer);
  calls.installTorchPlacement();
  return {};
}

void CudaOperatorRuntime::setInputs(const StepInputs &next) {
  inputs = next;
  FixedWords fixed{{inputs.learningRate, inputs.step}, 0};
  std::memcpy(staging->host(0), &fixed, sizeof(fixed));
  auto *seeds = reinterpret_cast<uint64_t *>(staging->host(0) + sizeof(fixed));
  for (int64_t position : draws)
    *seeds++ = drawSeed(inputs.seed, inputs.step, rank, position);
  staging->enqueue(*compute);
}

void CudaOperatorRuntime::beginDraw(int64_t position) {
  auto index = std::lower_bound(draws.begin(), draws.end(), position) - draws.begin();
  const std::byte *fixed = words->data();
  calls.beginTorchDraw(device.ordinal(),
                       {drawSeed(inputs.seed, inputs.step, rank, position),
                        reinterpret_cast<const int64_t *>(fixed + sizeof(FixedWords)) + index,
                        &reinterpret_cast<const FixedWords *>(fixed)->zero});
}
