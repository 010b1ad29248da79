//===- StepGraph.cpp - A whole step as one graph of the device -------------===//

#include "executor/StepGraph.h"

#include <algorithm>
#include <vector>

using namespace fsdp::rt;

namespace {
// What a rank tells the others: its obstacle, cut to a fixed size.
struct Report {
  char obstacle[512] = {};
};
} // namespace

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

StepGraph::StepGraph(Device &device, Communicator &communicator, GraphMode mode,
                     std::string obstacle)
    : device(device), communicator(communicator),
      obstacle(obstacle.empty() ? obstacleOf(mode) : std::move(obstacle)),
      current{GraphNote::State::Open,
              "not yet: the first steps measure and place what operators allocate"} {}

void StepGraph::refuse(const std::string &reason) {
  current = {GraphNote::State::Off, "off: " + reason};
}

Result<std::string> StepGraph::askAll(const std::string &own) {
  Report mine;
  own.copy(mine.obstacle, sizeof(mine.obstacle) - 1);
  std::vector<Report> reports(communicator.size());
  if (Status status = communicator.allGather(kControlLane, &mine, reports.data(), sizeof(mine));
      !status.ok())
    return status;
  auto hasObstacle = [](const Report &report) { return report.obstacle[0] != '\0'; };
  auto first = std::ranges::find_if(reports, hasObstacle);
  if (first == reports.end())
    return std::string();
  const std::string rank = std::to_string(first - reports.begin());
  return (std::ranges::all_of(reports, hasObstacle) ? "" : "on rank " + rank + ", ") +
         first->obstacle;
}

Status StepGraph::capture(Stream &compute, const std::string &found,
                          const std::function<Status()> &issue) {
  std::string own = obstacle.empty() ? found : obstacle;
  if (own.empty())
    own = communicator.beginCapture().message();
  const bool isBegun = own.empty();
  Result<std::string> reason = askAll(own);
  if (!reason.ok() || !reason->empty()) {
    if (isBegun)
      communicator.endCapture(/*kept=*/false);
    refuse(reason.ok() ? *reason : reason.status().message());
    return reason.status();
  }
  Result<std::unique_ptr<Graph>> captured = device.capture(compute, issue);
  reason = askAll(captured.ok() ? ""
                                : "the step cannot be captured: " + captured.status().message());
  const bool isKept = reason.ok() && reason->empty();
  communicator.endCapture(isKept);
  if (!isKept) {
    refuse(reason.ok() ? *reason : reason.status().message());
    return reason.status();
  }
  graph = std::move(*captured);
  current = {GraphNote::State::On, "on: a step is one graph"};
  return {};
}

Status StepGraph::launch(Stream &compute) {
  // A communicator that was aborted has freed what the graph's collectives use.
  if (Status status = communicator.health(); !status.ok())
    return status;
  return graph->launch(compute);
}
