//===- ExactSearch.h - The best plan of a small problem ------------*- C++ -*-===//
//
// A search over all plans, position by position: partial plans that agree on what is gathered and
// in flight, of which one is later in nothing, are one. Ends for some ten groups; until it ends,
// the least bound of what is left is a bound of all. Where latencies are a large part of
// collectives, linear programs are far below the best plan and this is not.
//
// Rests on monotony: what starts earlier ends earlier. That does not hold where two lanes slow each
// other down, so there is no such search for those problems.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_EXACTSEARCH_H
#define FSDP_SCHEDULE_EXACTSEARCH_H

#include "fsdp/Schedule/Plan.h"

namespace fsdp::schedule {

struct ExactResult {
  /// No plan takes less. If the search is complete, this is the best plan's makespan, or the
  /// target.
  double boundNs = 0;
  bool isComplete = false;
  /// The best of all plans; none if none beats the target, or the search is not complete.
  std::optional<Plan> plan;
  int64_t partialPlans = 0; // that were looked at
};

/// Searches for what beats `targetNs` until this many partial plans were looked at. None if the
/// lanes slow each other down, there are replicas, chunks, or more than 64 uses or reductions.
/// Deterministic.
std::optional<ExactResult> searchExactly(const Problem &problem, double targetNs,
                                         int64_t partialPlanLimit);

} // namespace fsdp::schedule

#endif // FSDP_SCHEDULE_EXACTSEARCH_H
