//===- ExactSearch.h - The best plan of a small problem ------------*- C++ -*-===//
//
// A search over all plans, position by position. Of two partial plans with the same gathered groups
// and collectives in flight, one of which is nowhere later, only that one is kept. The search ends
// for about ten groups. Until it ends, the least bound of the remaining partial plans is a bound of
// all plans. If latencies are a large part of collectives, the bounds of linear programs are far
// below the best plan, and the bound of this search is not.
//
// The search relies on monotony: what starts earlier ends no later. That does not hold if two lanes
// slow each other down, so there is no such search for those problems.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_EXACTSEARCH_H
#define FSDP_SCHEDULE_EXACTSEARCH_H

#include "fsdp/Schedule/Plan.h"

namespace fsdp::schedule {

struct ExactResult {
  /// A lower bound of all plans. If the search is complete, this is the best plan's makespan, or
  /// the target.
  double boundNs = 0;
  bool isComplete = false;
  /// The best of all plans; none if no plan beats the target, or if the search is not complete.
  std::optional<Plan> plan;
  int64_t partialPlans = 0; // number of partial plans visited
};

/// Searches for a plan that beats `targetNs`, until `partialPlanLimit` partial plans were visited.
/// None if the lanes slow each other down, or if there are replicas, chunks, or more than 64 uses
/// or reductions. Deterministic.
std::optional<ExactResult> searchExactly(const Problem &problem, double targetNs,
                                         int64_t partialPlanLimit);

} // namespace fsdp::schedule

#endif // FSDP_SCHEDULE_EXACTSEARCH_H
