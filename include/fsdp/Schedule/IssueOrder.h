//===- IssueOrder.h - The order in which a plan is issued --------*- C++ -*-===//
//
// What happens on the compute stream at each position, in the order of Problem.h. The simulator,
// the walk over memory and the critical path follow this order.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_ISSUEORDER_H
#define FSDP_SCHEDULE_ISSUEORDER_H

#include "fsdp/Schedule/Plan.h"

#include <algorithm>

namespace fsdp::schedule {

/// The wait of an operation for a bucket's all-reduce over replicas.
struct AcrossWait {
  uint32_t update, bucket;
};
/// Whether the bucket is all-reduced over replicas.
inline bool goesAcross(const Problem &problem, const ReductionBucket &bucket) {
  return problem.meshOfReduction(bucket.reductions.front()).acrossCost.has_value();
}
/// Ordered by `update`.
std::vector<AcrossWait> findAcrossWaits(const Problem &problem, const Plan &plan);

/// The lane of all reductions; lane 0 is that of gathers.
inline uint32_t getReductionLane(const Problem &problem, const Plan &plan) {
  return problem.oneLane || plan.shareLane ? 0 : 1;
}

/// Calls the visitor for all events of a plan, which must pass `verify`, in the order of issue:
///   waitForReduction(bucket), launchReduction(bucket), launchGather(bucket), waitForGather(bucket)
///   once for each use, waitForAcross(bucket),
///   compute(first, end): operations without launches or waits between them.
/// Linear in operations plus collectives.
template <typename Visitor>
void walkIssueOrder(const Problem &problem, const Plan &plan, Visitor &visitor) {
  const uint32_t numOperations = problem.operations.size(), numUses = problem.uses.size();
  const uint32_t numGathers = plan.gathers.size(), numReductions = plan.reductions.size();
  std::vector<uint32_t> bucketOfUse(numUses, numGathers);
  for (uint32_t i = 0; i < numGathers; ++i)
    for (uint32_t use : plan.gathers[i].uses)
      bucketOfUse[use] = i;
  const std::vector<AcrossWait> acrossWaits = findAcrossWaits(problem, plan);

  uint32_t gather = 0, reduction = 0, waited = 0, use = 0, waitedAcross = 0;
  for (uint32_t position = 0; position < numOperations;) {
    for (;; ++reduction) {
      for (; waited < reduction && plan.reductions[waited].wait == position; ++waited)
        visitor.waitForReduction(waited);
      if (reduction == numReductions || plan.reductions[reduction].launch > position)
        break;
      visitor.launchReduction(reduction);
    }
    for (; gather < numGathers && plan.gathers[gather].launch == position; ++gather)
      visitor.launchGather(gather);
    for (; use < numUses && problem.uses[use].first == position; ++use)
      if (bucketOfUse[use] < numGathers)
        visitor.waitForGather(bucketOfUse[use]);
    for (; waitedAcross < acrossWaits.size() && acrossWaits[waitedAcross].update == position;
         ++waitedAcross)
      visitor.waitForAcross(acrossWaits[waitedAcross].bucket);

    // No launch or wait lies between `position` and `next`.
    uint32_t next = numOperations;
    if (waited < reduction)
      next = std::min(next, plan.reductions[waited].wait);
    if (reduction < numReductions)
      next = std::min(next, plan.reductions[reduction].launch);
    if (gather < numGathers)
      next = std::min(next, plan.gathers[gather].launch);
    if (use < numUses)
      next = std::min(next, problem.uses[use].first);
    if (waitedAcross < acrossWaits.size())
      next = std::min(next, acrossWaits[waitedAcross].update);
    visitor.compute(position, next);
    position = next;
  }
}

} // namespace fsdp::schedule

#endif // FSDP_SCHEDULE_ISSUEORDER_H
