//===- CpuOperatorRuntime.cpp - Operators on a CPU -------------------------===//

#include "executor/CpuOperatorRuntime.h"
#include "executor/PlacementAllocator.h"
#include "executor/ScratchMemory.h"

using namespace fsdp::rt;

std::unique_ptr<OperatorRuntime> fsdp::rt::makeOperatorRuntime(Device &device) {
  if (auto *own = dynamic_cast<OperatorDevice *>(&device))
    return own->makeOperatorRuntime();
  return std::make_unique<CpuOperatorRuntime>();
}

Result<std::unique_ptr<Memory>> CpuOperatorRuntime::allocateScratch(size_t bytes) {
  return std::unique_ptr<Memory>(std::make_unique<ScratchMemory>(bytes));
}

Status CpuOperatorRuntime::prepare(const OperatorContext &context) {
  rank = context.rank;
  installPlacementAllocator();
  return {};
}

Status CpuOperatorRuntime::addUpdate(const fsdp_optimizer &optimizer, const ShardBuffers &shard,
                                     const std::string &) {
  updates.push_back(makeShardUpdate(optimizer, shard));
  return {};
}

Status CpuOperatorRuntime::writeGathered() {
  for (std::unique_ptr<ShardUpdate> &update : updates)
    update->writeGathered();
  return {};
}

Status CpuOperatorRuntime::begin() {
  squares = 0;
  factor.reset();
  return {};
}

Status CpuOperatorRuntime::squareSum(double *total) {
  *total = 0;
  for (std::unique_ptr<ShardUpdate> &update : updates)
    *total += update->squareSum();
  squares = *total;
  return {};
}

Status CpuOperatorRuntime::clip(const double *total, float maxNorm) {
  factor = clipFactor(*total, maxNorm);
  return {};
}

Status CpuOperatorRuntime::update(size_t index) {
  double own = updates[index]->run(inputs.step, inputs.learningRate, factor ? &*factor : nullptr);
  if (!factor)
    squares += own;
  return {};
}

Status CpuOperatorRuntime::end(double *squareSum) {
  *squareSum = squares;
  return {};
}
