//===- SearchableStep.cpp - Of which steps a schedule is searched ---------===//

#include "SearchableStep.h"

using namespace mlir;
using namespace fsdp;

static LogicalResult checkHasNoOrder(Step &step) {
  if (auto prefetch = step.module->getAttrOfType<PrefetchAttr>(FsdpDialect::getPrefetchAttrName()))
    return step.module.emitError("prefetch is '")
           << stringifyPrefetch(prefetch.getValue())
           << "', an order of its own; leave it out where the schedule is searched for";
  for (GroupOp group : step.groups)
    if (group.getForwardPrefetch() || group.getBackwardPrefetch())
      return group.emitError("group @")
             << group.getSymName()
             << " has a list of groups to prefetch, an order of its own; leave "
             << "it out where the schedule is searched for";
  return success();
}

static LogicalResult checkMicrobatches(Step &step) {
  if (step.isInterleaved())
    return step.module.emitError(
        "schedules are searched for where each microbatch runs by itself, but the order of "
        "microbatches is 1f1b; use schedule=fsdp2, or microbatch-order=sequential without stages");
  if (!step.getAccumulation())
    return success();
  for (GroupOp group : step.groups)
    if (group.getGradientSync() == GradientSync::ReduceScatter)
      return group.emitError("schedules are searched for where each reduction goes on over the "
                             "replicas, but gradient_sync of group @")
             << group.getSymName()
             << " is reduce_scatter; use schedule=fsdp2, or gradient_sync each or last";
  return success();
}

/// A problem has one cost for all gathers, and one for all reductions.
static LogicalResult checkRanksOfGroups(Step &step) {
  for (GroupOp group : step.groups) {
    if (std::optional<int64_t> ranks = group.getReshardRanks())
      return group.emitError("schedules are searched for where all gathers meet the same ranks, "
                             "but reshard_after_forward of group @")
             << group.getSymName() << " is " << *ranks
             << "; use schedule=fsdp2, or reshard_after_forward true, false or auto";
    GroupOp first = step.groups.front();
    if (step.getShards(group) == step.getShards(first))
      continue;
    InFlightDiagnostic diag =
        group.emitError("schedules are searched for where all gathers meet the same ranks, but "
                        "the mesh of group @")
        << group.getSymName() << " shards over " << step.getShards(group) << " and that of @"
        << first.getSymName() << " over " << step.getShards(first)
        << "; use schedule=fsdp2, or leave out the mesh of groups";
    diag.attachNote(first.getLoc()) << "group @" << first.getSymName() << " is declared here";
    return diag;
  }
  return success();
}

LogicalResult fsdp::checkIsSearchable(Step &step) {
  return failure(failed(checkHasNoOrder(step)) || failed(checkMicrobatches(step)) ||
                 failed(checkRanksOfGroups(step)));
}
