//===- SearchableStep.cpp - Checks of steps for a search ------------------===//

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
             << group.getSymName() << " has a "
             << (group.getForwardPrefetch() ? "forward_prefetch" : "backward_prefetch")
             << ", an order of its own; leave it out where the schedule is searched for";
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

static LogicalResult checkRanksOfGroups(Step &step) {
  auto isWhole = [&](GroupOp group) { return step.getShards(group) == 1; };
  const bool isAnySharded = !llvm::all_of(step.groups, isWhole);
  for (GroupOp group : step.groups) {
    if (std::optional<int64_t> ranks = group.getReshardRanks())
      return group.emitError("schedules are searched for where it is decided which groups keep "
                             "chunks, but reshard_after_forward of group @")
             << group.getSymName() << " is " << *ranks
             << "; use schedule=fsdp2, or reshard_after_forward true, false or auto";
    if (isAnySharded && isWhole(group))
      return group.emitError("schedules are searched for where all groups are sharded or none, "
                             "but the mesh of group @")
             << group.getSymName()
             << " has one shard; use schedule=fsdp2, or leave out the mesh of groups";
  }
  return success();
}

LogicalResult fsdp::checkIsSearchable(Step &step) {
  return failure(failed(checkHasNoOrder(step)) || failed(checkMicrobatches(step)) ||
                 failed(checkRanksOfGroups(step)));
}
