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

/// Weights, by LaneWork.
struct LaneShares {
  std::array<double, kNumLaneWorks> weights = {};
  /// What the rates add up to at most while there is no computation.
  double idleRate = 0;
  double operator[](LaneWork work) const { return weights[size_t(work)]; }
};

/// Lanes that are busy in a stretch, if only for a part of it.
struct BusyLanes {
  bool gathers = false, reductions = false, across = false;
};

/// Weights of which none can be raised, and none of which is everywhere at most another one's.
std::vector<LaneShares> findLaneShares(const Problem &problem, BusyLanes busy);

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_LANESHARES_H
