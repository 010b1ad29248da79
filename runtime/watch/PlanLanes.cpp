//===- PlanLanes.cpp - A plan's communicators as lanes of a run -----------===//

#include "watch/PlanLanes.h"

using namespace fsdp::rt;

std::vector<LaneShape> fsdp::rt::lanesOf(const PlanView &plan) {
  std::vector<LaneShape> lanes;
  for (const fsdp_communicator &communicator : plan.communicators())
    lanes.push_back({plan.string(communicator.name), communicator.ranks, communicator.stride,
                     communicator.by_copy_engine != 0});
  return lanes;
}

Status fsdp::rt::checkLanes(const PlanView &plan, const Communicator &communicator) {
  if (plan.tables().world_size != communicator.size())
    return Status::error("the step was compiled for " + std::to_string(plan.tables().world_size) +
                         " ranks, the run has " + std::to_string(communicator.size()));
  auto describe = [](const LaneShape &lane) {
    return std::to_string(lane.ranks) + " ranks with stride " + std::to_string(lane.stride);
  };
  const std::vector<LaneShape> needed = lanesOf(plan);
  for (unsigned i = 0; i < needed.size(); ++i) {
    unsigned lane = kControlLane + 1 + i;
    std::string what = "the step's communicator '" + needed[i].name + "' joins " +
                       describe(needed[i]) + ", the run has ";
    if (lane >= communicator.numLanes())
      return Status::error(what + "no such lane");
    const LaneShape &found = communicator.lanes()[lane];
    if (found.ranks != needed[i].ranks || found.stride != needed[i].stride)
      return Status::error(what + describe(found));
  }
  return {};
}
