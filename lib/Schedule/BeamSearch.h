//===- BeamSearch.h - Gathers launched position by position ----*- C++ -*-===//
//
// Forward over positions. At each some of the next gathers may be launched, as one bucket; gathers
// are launched in order of use. Of partial plans that have launched as many gathers in as many
// buckets, the best few go on (beam search: Lowerre 1976): what fewer buckets save on the lane is
// worth more later than it costs now, or less, which shows at the end only.
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
