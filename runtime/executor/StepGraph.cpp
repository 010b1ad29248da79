//===- StepGraph.cpp - A whole step as one graph of the device -------------===//

#include "executor/StepGraph.h"
#include "comm/Agreement.h"

using namespace fsdp::rt;

static std::string obstacleOf(GraphMode mode) {
  switch (mode) {
  case GraphMode::Automatic:
    return "";
  case GraphMode::Off:
    return "not asked for";
  case GraphMode::OffInThreads:
    break;
  }
  return "several ranks are threads of this process; --cuda-graph on makes graphs there, too";
}

StepGraph::StepGraph(Device &device, Communicator &communicator, GraphMode mode)
    : device(device), communicator(communicator), obstacle(obstacleOf(mode)),
      current{GraphNote::State::Open,
              "not yet: the first steps measure and place what operators allocate"} {}

void StepGraph::refuse(const std::string &reason) {
  current = {GraphNote::State::Off, "off: " + reason};
}

Status StepGraph::agreeOn(const std::string &own) {
  const Outcome agreed = agree(communicator, own.empty() ? Status() : Status::error(own));
  if (agreed.status.ok())
    return {};
  refuse(agreed.status.message());
  if (agreed.known)
    return {};
  // The lane has failed. If this rank has an obstacle, agreed.status has that, which is no error,
  // and not the reason of the failure.
  const Status failure = own.empty() ? agreed.status : communicator.health();
  return failure.ok() ? Status::error("the ranks cannot tell each other whether a step is a graph")
                      : failure;
}

Status StepGraph::capture(Stream &compute, const std::string &found,
                          const std::function<Status()> &issue) {
  std::string own = obstacle.empty() ? found : obstacle;
  if (own.empty())
    own = communicator.beginCapture().message();
  const bool isBegun = own.empty();
  Status status = agreeOn(own);
  if (!isOpen()) {
    if (isBegun)
      communicator.endCapture(/*kept=*/false);
    return status;
  }
  Result<std::unique_ptr<Graph>> captured = device.capture(compute, issue);
  status =
      agreeOn(captured.ok() ? "" : "the step cannot be captured: " + captured.status().message());
  communicator.endCapture(/*kept=*/isOpen());
  if (!isOpen())
    return status;
  graph = std::move(*captured);
  current = {GraphNote::State::On, "on: a step is one graph"};
  return {};
}

Status StepGraph::launch(Stream &compute) {
  // An aborted communicator has freed memory that the graph's collectives use.
  if (Status status = communicator.health(); !status.ok())
    return status;
  return graph->launch(compute);
}
