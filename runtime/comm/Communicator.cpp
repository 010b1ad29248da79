//===- Communicator.cpp - What all backends share --------------------------===//

#include "comm/Communicator.h"
#include "comm/Reduction.h"

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

Status Communicator::reduceScatterScaled(unsigned lane, void *input, void *output, size_t count,
                                         fsdp_dtype dtype, double factor) {
  if (Status status = checkReduction(dtype, ReduceOp::Average); !status.ok())
    return status;
  multiplyInPlace(static_cast<std::byte *>(input), ranksOf(lane).size * count, dtype, factor);
  return reduceScatter(lane, input, output, count, dtype, ReduceOp::Sum);
}

Status Communicator::divide(unsigned lane, void *data, size_t count, fsdp_dtype dtype,
                            double divisor) {
  if (Status status = checkReduction(dtype, ReduceOp::Average); !status.ok())
    return status;
  divideInPlace(static_cast<std::byte *>(data), count, dtype, divisor);
  return {};
}

Status Communicator::abortStatus(const Status &reason) const {
  if (reason.abortedBy())
    return reason;
  return Status::aborted(rank(),
                         "aborted by rank " + std::to_string(rank()) + ": " + reason.message());
}
