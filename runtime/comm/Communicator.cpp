//===- Communicator.cpp - What all backends share --------------------------===//

#include "comm/Communicator.h"
#include "comm/Reduction.h"

using namespace fsdp::rt;

Communicator::Communicator(unsigned rank, unsigned size, std::vector<LaneShape> lanes)
    : myRank(rank), numRanks(size), shapes(std::move(lanes)) {
  shapes.insert(shapes.begin(), {"control", size, 1});
}

std::string Communicator::laneName(unsigned lane) const {
  return (lane < numLanes() ? shapes[lane].name : "unknown") + " lane";
}

Status Communicator::checkLane(unsigned lane) const {
  if (lane < numLanes())
    return {};
  return Status::error("collective on lane " + std::to_string(lane) + ", but there are " +
                       std::to_string(numLanes()) + " lanes");
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
                         "aborted by rank " + std::to_string(rank()) + ": " + reason.message(),
                         reason.said().size());
}
