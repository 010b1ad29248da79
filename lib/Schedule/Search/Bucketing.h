//===- Bucketing.h - What to send together, and how early ---------*- C++ -*-===//
//
// Private to lib/Schedule. A recipe says in a few numbers what a list scheduler's decisions say
// collective by collective.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_BUCKETING_H
#define FSDP_SCHEDULE_BUCKETING_H

#include "SearchSpace.h"
#include "fsdp/Schedule/ListSchedule.h"

#include <limits>

namespace fsdp::schedule {

/// Which neighbours form a bucket.
struct Merging {
  enum Kind : uint8_t {
    None,
    Threshold, // a bucket is full at `bytes`
    Rounding   // the relaxation's fractions, summed up from `offset` and rounded down
  } kind = None;
  double bytes = 0, offset = 0;
};

/// Delays reductions, so that a gather for which computation would wait runs before them.
struct Delay {
  uint32_t numEvents = 0; // behind their readiness (SearchSpace.h)
  /// Delays only reductions before a gather that does not fit into memory until they are ready.
  bool whereTight = false;
};

struct Recipe {
  std::vector<uint8_t> kept;    // by use
  std::vector<uint8_t> chunked; // by use; empty: none is
  Merging gathers, reductions;
  /// Buckets of at least so many bytes go by copy engines.
  double copyEngineBytes = std::numeric_limits<double>::infinity();
  /// Gates: as late as all gathers end in time if they take so many times as long, one by one in
  /// the lane time that is left beside reductions that start when they are ready. 0: no gates.
  double latest = 0;
  Delay delay;
  bool shareLane = false;
};

/// The gate of gathers for these uses, `multiple` of their duration before the first of them.
uint32_t gateBefore(const SearchSpace &space, std::span<const uint32_t> uses,
                    std::span<const uint8_t> chunked, bool byCopyEngine, double multiple);

/// Opens the gates of buckets [begin, end) of gathers, which are in order of use, by
/// `Recipe::latest`.
void setLatestGates(const SearchSpace &space, double multiple, size_t begin, size_t end,
                    Decisions &decisions);

/// Neighbours that do not fit the cap together, or whose bucket would wait for itself, are not
/// merged. `bound` must hold a relaxation's solution if something is to be rounded.
Decisions makeDecisions(const SearchSpace &space, const Recipe &recipe, const LowerBound &bound);

} // namespace fsdp::schedule

#endif // FSDP_SCHEDULE_BUCKETING_H
