//===- CpuOperatorRuntime.cpp - Operators on a CPU -------------------------===//

#include "executor/CpuOperatorRuntime.h"
#include "executor/PlacementAllocator.h"
#include "executor/ScratchMemory.h"
#include "plan/NormType.h"

#include <cmath>

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

Status CpuOperatorRuntime::addUpdate(const fsdp_optimizer &optimizer, uint32_t index,
                                     const ShardBuffers &shard, const std::string &) {
  updates.push_back(makeShardUpdate(optimizer, shard));
  optimizerOf.push_back(index);
  countsInNorm.push_back(shard.countsInNorm);
  return {};
}

Status CpuOperatorRuntime::writeGathered() {
  for (const ShardBuffers &shard : frozen)
    writeGatheredCopy(shard);
  for (std::unique_ptr<ShardUpdate> &update : updates)
    update->writeGathered();
  return {};
}

Status CpuOperatorRuntime::begin() {
  normPart = 0;
  factors = {};
  isNormTaken = updatesNothing = false;
  shardNorms.assign(updates.size(), std::nullopt); // allocates only in the first step
  return {};
}

Status CpuOperatorRuntime::shardNorm(size_t index, fsdp_norm_type type, int64_t shiftBytes) {
  shardNorms[index] = updates[index]->partialNormOf(type, shiftBytes);
  return {};
}

Status CpuOperatorRuntime::partialNorm(fsdp_norm_type type, double *part) {
  normPart = 0;
  for (size_t i = 0; i < updates.size(); ++i)
    if (countsInNorm[i])
      normPart = joinNormParts(type, normPart,
                               shardNorms[i] ? *shardNorms[i] : updates[i]->partialNorm(type));
  *part = normPart;
  isNormTaken = true;
  return {};
}

Status CpuOperatorRuntime::clip(fsdp_norm_type type, const double *total, float maxNorm,
                                const float *lossScale) {
  if (lossScale) {
    factors.inverseScale = inverseOfScale(*lossScale);
    updatesNothing = !std::isfinite(*total);
  }
  if (maxNorm != 0)
    factors.clip = clipFactor(type, *total, maxNorm, factors.inverseScale.value_or(1));
  return {};
}

Status CpuOperatorRuntime::update(size_t index) {
  if (updatesNothing) {
    updates[index]->writeGathered(); // a store to the host reads it
    return {};
  }
  double own =
      updates[index]->run(inputs.update(), inputs.learningRateOf(optimizerOf[index]), factors);
  if (!isNormTaken && countsInNorm[index])
    normPart += own;
  return {};
}

Status CpuOperatorRuntime::end(double *part) {
  *part = normPart;
  return {};
}
