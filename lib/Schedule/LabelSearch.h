//===- LabelSearch.h - All plans of a small problem, the best of them -*- C++ -*-===//
//
// Forward over positions. A label stands for the plans that agree on what happened so far: the
// time, when each lane gets free, what is gathered, what is in flight. Of two labels with the same
// sets, the one that is later in nothing stands for both, since what starts earlier ends earlier
// (max-plus systems are monotone: Baccelli et al. 1992). A label whose bound reaches the target is
// dropped.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_LABELSEARCH_H
#define FSDP_LIB_SCHEDULE_LABELSEARCH_H

#include "LabelProblem.h"
#include "fsdp/Schedule/Plan.h"

namespace fsdp::schedule {

struct LabelSearchResult {
  /// No plan takes less. If complete, that of the plan, or the target.
  double boundNs = 0;
  /// Faster than the target; none if there is none, or the limit was reached.
  std::optional<Plan> plan;
  int64_t labels = 0; // that were made
  bool isComplete = false;
};

/// Looks for plans that take less than `targetNs`, until `labelLimit` labels were made.
LabelSearchResult searchLabels(const LabelProblem &problem, double targetNs, int64_t labelLimit);

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_LABELSEARCH_H
