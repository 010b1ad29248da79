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

/// Of `size` ranks. On the first two the ranks of one of `replicas` meet, which have consecutive
/// numbers; on the third, of several replicas, those that hold the same shard; on the last, which
/// is there if `chunkRanks` is not 1, as many neighbours of a replica.
inline std::vector<LaneShape> standardLanes(unsigned size, unsigned replicas = 1,
                                            unsigned chunkRanks = 1) {
  unsigned shards = size / replicas;
  std::vector<LaneShape> lanes = {{"gather", shards, 1, /*isGather=*/true}, {"reduce", shards, 1}};
  if (replicas > 1 || chunkRanks > 1)
    lanes.push_back({"replicate", replicas, shards});
  if (chunkRanks > 1)
    lanes.push_back({"chunk", chunkRanks, 1, /*isGather=*/true});
  return lanes;
}

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_COMM_STANDARDLANES_H
