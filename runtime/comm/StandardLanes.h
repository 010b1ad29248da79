//===- StandardLanes.h - Lanes of runs without a plan ------------*- C++ -*-===//
//
// For measurements and tests: the lanes that a step of one mesh has.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_COMM_STANDARDLANES_H
#define FSDP_RUNTIME_COMM_STANDARDLANES_H

#include "comm/Communicator.h"

namespace fsdp::rt {

inline constexpr unsigned kGatherLane = kControlLane + 1, kReduceLane = kControlLane + 2,
                          kReplicateLane = kControlLane + 3, kChunkLane = kControlLane + 4;

/// Of a run of `size` ranks. The ranks of one replica, which have consecutive numbers, meet on the
/// gather lane and on the reduce lane. Ranks that hold the same shard meet on the replicate lane,
/// if there are several replicas, and each `chunkRanks` neighbours on the chunk lane, if that is
/// not 1.
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
