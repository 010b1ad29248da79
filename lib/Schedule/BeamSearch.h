//===- BeamSearch.h - Gathers launched position by position ----*- C++ -*-===//
//
// Beam search (Lowerre 1976), forward over positions. At each position the next gathers, in order
// of use, may be launched as one bucket. Partial plans are compared only with those that have
// launched as many gathers in as many buckets, and the best few of them go on: whether the lane
// time that fewer buckets save is worth their delay shows only at the end of the step.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_BEAMSEARCH_H
#define FSDP_LIB_SCHEDULE_BEAMSEARCH_H

#include "BeamOutline.h"

namespace fsdp::schedule {

struct BeamLimits {
  int64_t bucketBytes = INT64_MAX; // of several members
  /// About so many partial plans are carried past an operation.
  int64_t steps = 0;
  double targetNs = 0; // only what is faster is wanted
};

struct BeamResult {
  std::optional<Plan> plan;
  double makespanNs = 0; // as simulate() finds it, but for the rounding of sums
  int64_t steps = 0;
};

BeamResult searchOutline(const Problem &problem, const BeamOutline &outline,
                         const BeamLimits &limits);

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_BEAMSEARCH_H
