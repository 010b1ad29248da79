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

namespace fsdp::schedule {

/// Which neighbours form a bucket.
struct Merging {
  enum Kind : uint8_t {
    None,
    Threshold, // a bucket is full at `bytes`
    Rounding,  // the relaxation's fractions, summed up from `offset` and rounded down
    /// Gathers: members are added until computation would wait for the bucket on a network on which
    /// collectives take `slowdown` times as long.
    Hidden
  } kind = None;
  double bytes = 0, offset = 0, slowdown = 1;
};

/// When a gather may be launched at the earliest.
struct Gating {
  enum Kind : uint8_t {
    None,
    Latest, // the latest position from which all gathers, run one by one, end in time
    /// The same for gathers that take `multiple` times as long, and only in the lane time that is
    /// left beside reductions that start when they are ready.
    LatestBeside,
    Horizon // `multiple` of its own duration before its use
  } kind = None;
  double multiple = 0;
};

/// Delays reductions, so that a gather for which computation would wait runs before them.
struct Delay {
  uint32_t numEvents = 0; // behind their readiness (SearchSpace.h)
  /// Delays only reductions before a gather that does not fit into memory until they are ready.
  bool whereTight = false;
};

struct Recipe {
  std::vector<uint8_t> kept; // by use
  Merging gathers, reductions;
  Gating gating;
  uint32_t lookahead = 0;
  Delay delay;
  bool shareLane = false;
};

/// The gate of gathers for these uses, `multiple` of their duration before the first of them.
uint32_t gateBefore(const SearchSpace &space, std::span<const uint32_t> uses, double multiple);

/// Opens the gates of buckets [begin, end) of gathers, which are in order of use, by LatestBeside.
void setLatestGates(const SearchSpace &space, double multiple, size_t begin, size_t end,
                    Decisions &decisions);

/// Neighbours that do not fit the cap together, or whose bucket would wait for itself, are not
/// merged. `bound` must hold a relaxation's solution if something is to be rounded.
Decisions makeDecisions(const SearchSpace &space, const Recipe &recipe, const LowerBound &bound);

} // namespace fsdp::schedule

#endif // FSDP_SCHEDULE_BUCKETING_H
