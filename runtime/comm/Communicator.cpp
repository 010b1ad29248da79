//===- Communicator.cpp - Functions that all backends share ---------------===//

#include "comm/Communicator.h"
#include "Hash.h"
#include "comm/Reduction.h"

using namespace fsdp::rt;

uint64_t fsdp::rt::fingerprintOf(const std::vector<LaneShape> &lanes) {
  Hash hash;
  for (const LaneShape &lane : lanes) {
    hash.add(lane.name);
    hash.add(lane.ranks);
    hash.add(lane.stride);
    hash.add(lane.byCopyEngine);
  }
  return hash.value();
}

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
  if (Status status = checkLane(lane); !status.ok())
    return status;
  if (Status status = checkReduction(dtype, ReduceOp::Average); !status.ok())
    return status;
  multiplyInPlace(static_cast<std::byte *>(input), ranksOf(lane).size * count, dtype, factor);
  return reduceScatter(lane, input, output, count, dtype, ReduceOp::Sum);
}

Status Communicator::divide(unsigned lane, void *data, size_t count, fsdp_dtype dtype,
                            double divisor) {
  if (Status status = checkLane(lane); !status.ok())
    return status;
  if (Status status = checkReduction(dtype, ReduceOp::Average); !status.ok())
    return status;
  divideInPlace(static_cast<std::byte *>(data), count, dtype, divisor);
  return {};
}

Status Communicator::abortStatus(const Status &reason, const std::string &name) const {
  if (reason.abortedBy())
    return reason;
  return Status::aborted(rank(), "aborted by " + name + ": " + reason.message(),
                         reason.said().size());
}

Status Communicator::abortStatus(const Status &reason) const {
  return abortStatus(reason, "rank " + std::to_string(rank()));
}
