//===- Bucketing.h - Buckets and gates from a recipe --------------*- C++ -*-===//
//
// The list scheduler's decisions name each collective. A recipe describes
// such decisions by a few parameters.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_BUCKETING_H
#define FSDP_SCHEDULE_BUCKETING_H

#include "SearchSpace.h"
#include "fsdp/Schedule/ListSchedule.h"

namespace fsdp::schedule {

struct Recipe {
  std::vector<uint8_t> kept;         // by use
  std::vector<uint8_t> chunked = {}; // by use; empty: none
  /// Neighbours form buckets. A bucket is full at so many bytes; 0: each has one member.
  double gatherBytes = 0, reductionBytes = 0;
  /// Gates are the latest starts with which every gather ends before its use, if each gather takes
  /// `latest` times its duration and the lane also runs each reduction when it is ready. 0: no
  /// gates.
  double latest = 0;
  bool shareLane = false;
  bool byCopyEngine = false; // all gathers, where the mesh has copy engines
};

/// Sets the gates of buckets [begin, end) of gathers, which are in order of use; `multiple` is as
/// `Recipe::latest`.
void setLatestGates(const SearchSpace &space, double multiple, size_t begin, size_t end,
                    Decisions &decisions);

/// Neighbours are not merged if they exceed the cap together or if their bucket would wait for
/// itself.
Decisions makeDecisions(const SearchSpace &space, const Recipe &recipe);

} // namespace fsdp::schedule

#endif // FSDP_SCHEDULE_BUCKETING_H
