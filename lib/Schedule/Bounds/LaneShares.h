//===- LaneShares.h - Work that fits into a stretch of time --------*- C++ -*-===//
//
// Work is measured by the time that it takes alone. Give each kind of work a weight. If at each
// moment the weighted sum of the rates is at most 1, then a stretch of time is at least as long as
// the weighted sum of the work done in it. fsdp/Schedule/Slowdowns.h gives the rates for each
// combination of concurrent work; there are finitely many combinations.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_LANESHARES_H
#define FSDP_LIB_SCHEDULE_LANESHARES_H

#include "fsdp/Schedule/Problem.h"

#include <array>
#include <vector>

namespace fsdp::schedule {

enum class LaneWork : uint8_t {
  Compute,
  GatherLatency,
  GatherBytes,
  ReduceLatency,
  ReduceBytes,
  AcrossBytes
};
constexpr size_t kNumLaneWorks = 6;

struct LaneShares {
  std::array<double, kNumLaneWorks> weights = {}; // by LaneWork
  /// The largest weighted sum of rates over all moments without computation.
  double idleRate = 0;

  double operator[](LaneWork work) const { return weights[size_t(work)]; }
  /// The weighted sum of the work of gathers and reductions.
  double sumOf(const CollectiveDuration &gathers, const CollectiveDuration &reductions) const {
    return (*this)[LaneWork::GatherLatency] * gathers.latencyNs +
           (*this)[LaneWork::GatherBytes] * gathers.bytesNs +
           (*this)[LaneWork::ReduceLatency] * reductions.latencyNs +
           (*this)[LaneWork::ReduceBytes] * reductions.bytesNs;
  }
};

/// The lanes that may be busy in a stretch of time.
struct BusyLanes {
  bool gathers = false, reductions = false, across = false;
};

/// Vectors of weights, all Pareto-optimal: no weight can be raised without lowering another weight
/// of its vector, and no vector is dominated by another.
std::vector<LaneShares> findLaneShares(const Problem &problem, BusyLanes busy);

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_LANESHARES_H
