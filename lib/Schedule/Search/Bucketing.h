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

#include <limits>

namespace fsdp::schedule {

/// The rule by which neighbours form a bucket.
struct Merging {
  enum Kind : uint8_t {
    None,
    Threshold, // a bucket is full at `bytes`
    Rounding   // the LP relaxation's fractions, summed from `offset` and rounded down
  } kind = None;
  double bytes = 0, offset = 0;
};

struct Recipe {
  std::vector<uint8_t> kept;    // by use
  std::vector<uint8_t> chunked; // by use; empty: none
  Merging gathers, reductions;
  /// Gathers in buckets of at least so many bytes go by copy engines.
  double copyEngineBytes = std::numeric_limits<double>::infinity();
  /// Gates are the latest starts with which every gather ends before its use, if each gather takes
  /// `latest` times its duration and the lane also runs each reduction when it is ready. 0: no
  /// gates.
  double latest = 0;
  bool shareLane = false;
};

/// Adds `share` to `sum`. Whether the sum passes a whole number: fractions are rounded
/// cumulatively, so that of elements with a fraction of 3/4 three in four are taken.
bool passesWhole(double &sum, double share);

/// The gate of a bucket of these uses: `multiple` times its duration before its first use.
uint32_t gateBefore(const SearchSpace &space, std::span<const uint32_t> uses,
                    std::span<const uint8_t> chunked, bool byCopyEngine, double multiple);

/// Sets the gates of buckets [begin, end) of gathers, which are in order of use; `multiple` is as
/// `Recipe::latest`.
void setLatestGates(const SearchSpace &space, double multiple, size_t begin, size_t end,
                    Decisions &decisions);

/// Neighbours are not merged if they exceed the cap together or if their bucket would wait for
/// itself. For Merging::Rounding, `bound` must hold a solution of the LP relaxation.
Decisions makeDecisions(const SearchSpace &space, const Recipe &recipe, const LowerBound &bound);

} // namespace fsdp::schedule

#endif // FSDP_SCHEDULE_BUCKETING_H
