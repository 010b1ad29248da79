//===- StepGraph.cpp - A whole step as one graph of the device -------------===//

#include "executor/StepGraph.h"

using namespace fsdp::rt;

StepGraph::StepGraph(Device &device, Communicator &communicator, GraphMode mode,
                     const std::string &obstacle)
    : device(device), communicator(communicator),
      current{GraphNote::State::Open,
              "not yet: the first steps measure and place what operators allocate"} {
  if (!obstacle.empty())
    refuse(obstacle);
  else if (mode == GraphMode::Off)
    refuse("not asked for");
}

void StepGraph::refuse(const std::string &reason) {
  current = {GraphNote::State::Off, "off: " + reason};
}

void StepGraph::capture(Stream &compute, const std::function<Status()> &issue) {
  if (Status status = communicator.beginCapture(); !status.ok())
    return refuse(status.message());
  Result<std::unique_ptr<Graph>> captured = device.capture(compute, issue);
  communicator.endCapture(captured.ok());
  if (!captured.ok())
    return refuse("the step cannot be captured: " + captured.status().message());
  graph = std::move(*captured);
  current = {GraphNote::State::On, "on: a step is one graph"};
}

Status StepGraph::launch(Stream &compute) {
  // A communicator that was aborted has freed what the graph's collectives use.
  if (Status status = communicator.health(); !status.ok())
    return status;
  return graph->launch(compute);
}
