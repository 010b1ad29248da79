//===- PathRuns.cpp - A critical path for display -------------------------===//

#include "PathRuns.h"

#include "fsdp/Explain/Blocks.h"

using namespace fsdp::explain;

std::string fsdp::explain::describe(const PathItem &item, const ScheduleView &view) {
  switch (item.kind) {
  case PathKind::Computation:
    return describe(view.labels.operations[item.index]);
  case PathKind::Gather:
  case PathKind::Reduction:
  case PathKind::AllReduce:
    return std::string(getName(item.kind)) + " " + joinNames(view.collectives[item.index].groups);
  case PathKind::Fetch:
  case PathKind::Store:
    return std::string(getName(item.kind)) + " " + view.hostCopies[item.index].group;
  }
  return "";
}

/// Another collective of the lane may wait for one for which computation does not, so it matters
/// that this one could be issued earlier.
static std::string describeIssue(const LaunchReason &reason, const ScheduleView &view) {
  if (reason.by == HeldBy::Choice)
    return "could be issued earlier, from " + describe(view.labels.operations[reason.earliest]) +
           " on";
  return describe(reason, view);
}

std::string fsdp::explain::describeCause(const PathSegment &segment, const ExplainedPlan &plan) {
  if (segment.kind == PathKind::Computation)
    return "";
  if (segment.kind == PathKind::Fetch || segment.kind == PathKind::Store)
    return "computation waits for this copy";
  switch (segment.cause) {
  case PathCause::Issue:
    if (segment.kind != PathKind::AllReduce)
      return describeIssue(plan.explanation.launches[segment.index], plan.view);
    [[fallthrough]];
  case PathCause::Reduction:
    return "as soon as its reduction has ended";
  case PathCause::Lane:
    return "lane busy until then: " + describe(segment.behind, plan.view);
  case PathCause::Order:
    return "NCCL starts it behind " + describe(segment.behind, plan.view);
  }
  return "";
}

std::vector<PathRun> fsdp::explain::getPathRuns(const ScheduleView &view) {
  std::vector<PathRun> runs;
  for (const PathSegment &segment : view.criticalPath) {
    std::string name;
    if (segment.kind != PathKind::Computation) {
      name = describe(segment, view);
    } else {
      const OperationLabel &label = view.labels.operations[segment.index];
      const std::string_view block = getBlockName(label.module);
      name = std::string(getName(label.part)) + " of " +
             (block.empty() ? "the root" : std::string(block));
      if (!runs.empty() && runs.back().first.kind == PathKind::Computation &&
          runs.back().name == name) {
        runs.back().interval.endNs = segment.interval.endNs;
        runs.back().slowdownNs += segment.slowdownNs;
        continue;
      }
    }
    runs.push_back({segment, segment.interval, segment.slowdownNs, name});
  }
  return runs;
}

PathShares fsdp::explain::getPathShares(const ScheduleView &view) {
  PathShares shares = {};
  for (const PathSegment &segment : view.criticalPath) {
    PathShare &share = shares[static_cast<unsigned>(segment.kind)];
    share.ns += segment.interval.endNs - segment.interval.startNs;
    share.slowdownNs += segment.slowdownNs;
  }
  return shares;
}
