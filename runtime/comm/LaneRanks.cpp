//===- LaneRanks.cpp - With whom a rank meets on a lane --------------------===//

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
  default:
    return {0, 1, size(), rank()};
  }
}
