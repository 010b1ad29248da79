//===- LaneShares.h - What fits into a stretch of time beside what -*- C++ -*-===//
//
// A stretch of time is at least as long as a weighted sum of the work that is done in it, if at
// each moment the rates of that work, so weighted, add up to at most 1. Work is measured by the
// time that it takes beside nothing. What may run at a moment, and how fast, is in
// Model/Slowdowns.h: these are finitely many cases.
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
  /// The largest weighted sum of rates at a moment without computation.
  double idleRate = 0;

  double operator[](LaneWork work) const { return weights[size_t(work)]; }
  /// The weighted sum of what gathers and reductions have to do.
  double sumOf(const CollectiveDuration &gathers, const CollectiveDuration &reductions) const {
    return (*this)[LaneWork::GatherLatency] * gathers.latencyNs +
           (*this)[LaneWork::GatherBytes] * gathers.bytesNs +
           (*this)[LaneWork::ReduceLatency] * reductions.latencyNs +
           (*this)[LaneWork::ReduceBytes] * reductions.bytesNs;
  }
};

/// The lanes that may be busy at some moment of a stretch.
struct BusyLanes {
  bool gathers = false, reductions = false, across = false;
};

/// Vectors of weights. In each, no weight can be raised without lowering another one; no vector is
/// at most another one in all weights.
std::vector<LaneShares> findLaneShares(const Problem &problem, BusyLanes busy);

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_LANESHARES_H
