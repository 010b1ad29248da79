//===- ShardSegments.h - Parts of a shard by optimizer -----------*- C++ -*-===//

#ifndef FSDP_RUNTIME_SHARDSEGMENTS_H
#define FSDP_RUNTIME_SHARDSEGMENTS_H

#include "executor/OptimizerUpdate.h"

#include <vector>

namespace fsdp::rt {

/// Consecutive elements of a shard that one optimizer of the plan updates.
struct ShardSegment {
  uint32_t optimizer;
  ShardBuffers shard;
};

/// Elements [first, first + count) of the shard, as a shard without pieces.
ShardBuffers sliceOf(const ShardBuffers &shard, int64_t first, int64_t count);

/// Splits the shard where the next piece has another optimizer; padding belongs to the segment
/// before it. A shard without pieces is one segment of the plan's first optimizer.
std::vector<ShardSegment> splitByOptimizer(const ShardBuffers &shard);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_SHARDSEGMENTS_H
