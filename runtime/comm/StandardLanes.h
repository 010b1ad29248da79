//===- StandardLanes.h - Lanes of runs without a plan ------------*- C++ -*-===//
//
// The lanes of a step on one mesh, for measurements and tests.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_COMM_STANDARDLANES_H
#define FSDP_RUNTIME_COMM_STANDARDLANES_H

#include "comm/Communicator.h"

namespace fsdp::rt {

inline constexpr unsigned kGatherLane = kControlLane + 1, kReduceLane = kControlLane + 2,
                          kReplicateLane = kControlLane + 3, kChunkLane = kControlLane + 4;

/// The lanes of a run with `size` ranks. The ranks of one replica, which have consecutive numbers,
/// meet on the gather lane and on the reduce lane. If there are several replicas, ranks that hold
/// the same shard meet on the replicate lane. If `chunkRanks` is not 1, each `chunkRanks`
/// neighbours meet on the chunk lane.
inline std::vector<LaneShape> standardLanes(unsigned size, unsigned replicas = 1,
                                            unsigned chunkRanks = 1) {
  unsigned shards = size / replicas;
  std::vector<LaneShape> lanes = {{"gather", shards, 1}, {"reduce", shards, 1}};
  if (replicas > 1 || chunkRanks > 1)
    lanes.push_back({"replicate", replicas, shards});
  if (chunkRanks > 1)
    lanes.push_back({"chunk", chunkRanks, 1});
  return lanes;
}

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_COMM_STANDARDLANES_H
