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
    /// Gathers: a bucket is full when computation would wait for one more member, were collectives
    /// `slowdown` times as long.
    Hidden
  } kind = None;
  double bytes = 0, offset = 0, slowdown = 1;
};

/// When a gather may be launched at the earliest.
struct Gating {
  enum Kind : uint8_t {
    None,
    Latest,  // so late that all gathers one after another are just in time
    /// Likewise, were they `multiple` times as long, in the time that reductions leave which start
    /// when they are ready.
    LatestBeside,
    Horizon, // `multiple` of its own duration before its use
    /// Where a reduction is ready, at least `multiple` of its duration before its use: what slows
    /// computation then does so at the same time.
    WithReduction
  } kind = None;
  double multiple = 0;
};

/// Reductions that are put off, so that a gather for which computation will stand still goes first.
struct Delay {
  uint32_t numEvents = 0; // behind their readiness (SearchSpace.h)
  /// Only those before a gather that has no room until they are ready.
  bool whereTight = false;
};

struct Recipe {
  std::vector<uint8_t> kept; // by use
  Merging gathers, reductions;
  Gating gating;
  Delay delay;
  LanePriority priority = LanePriority::Slack;
  uint32_t lookahead = 0;
  bool shareLane = false;
};

/// The gate of gathers for these uses, `multiple` of their duration before the first of them.
uint32_t gateBefore(const SearchSpace &space, std::span<const uint32_t> uses, double multiple,
                    bool withReduction);

/// Opens the gates of buckets [begin, end) of gathers, which are in order of use, by LatestBeside.
void setLatestGates(const SearchSpace &space, double multiple, size_t begin, size_t end,
                    Decisions &decisions);

/// Neighbours that do not fit the cap together, or whose bucket would wait for itself, are not
/// merged. `bound` must hold a relaxation's solution if something is to be rounded.
Decisions makeDecisions(const SearchSpace &space, const Recipe &recipe, const LowerBound &bound);

} // namespace fsdp::schedule

#endif // FSDP_SCHEDULE_BUCKETING_H
