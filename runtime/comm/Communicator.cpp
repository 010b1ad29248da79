//===- Communicator.cpp - What all backends share --------------------------===//

#include "comm/Communicator.h"

using namespace fsdp::rt;

LaneRanks Communicator::ranksOf(unsigned lane) const {
  unsigned shards = size() / replicas();
  switch (lane) {
  case kGatherLane:
  case kReduceLane:
    return {rank() / shards * shards, 1, shards, rank() % shards};
  case kReplicateLane:
    return {rank() % shards, shards, replicas(), rank() / shards};
  case kChunkLane:
    return {rank() / chunkRanks() * chunkRanks(), 1, chunkRanks(), rank() % chunkRanks()};
  default:
    return {0, 1, size(), rank()};
  }
}

Status Communicator::abortStatus(const Status &reason) const {
  if (reason.abortedBy())
    return reason;
  return Status::aborted(rank(),
                         "aborted by rank " + std::to_string(rank()) + ": " + reason.message());
}
