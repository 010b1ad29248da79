//===- LabelSearch.h - Searches all plans of a small problem -- -*- C++ -*-===//
//
// Forward over positions. A label stands for all plans with the same state: the time, when each
// lane is free, which copies exist, which collectives are in flight. A label dominates another one
// with the same sets if none of its times is later: starting earlier, everything after it ends no
// later (max-plus systems are monotone: Baccelli et al. 1992). Dominated labels, and those whose
// bound reaches the target, are dropped.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_LABELSEARCH_H
#define FSDP_LIB_SCHEDULE_LABELSEARCH_H

#include "LabelProblem.h"
#include "fsdp/Schedule/Plan.h"

namespace fsdp::schedule {

struct LabelSearchResult {
  /// A lower bound of all plans. If the search is complete: the plan's time, else the target.
  double boundNs = 0;
  /// A plan faster than the target. None if none exists, or the limit was reached first.
  std::optional<Plan> plan;
  int64_t labels = 0; // number of labels made
  bool isComplete = false;
};

/// Searches for plans faster than `targetNs`, until `labelLimit` labels were made.
LabelSearchResult searchLabels(const LabelProblem &problem, double targetNs, int64_t labelLimit);

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_LABELSEARCH_H
