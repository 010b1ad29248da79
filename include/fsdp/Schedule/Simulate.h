//===- Simulate.h - The timeline of a plan ------------------------*- C++ -*-===//
//
// Event-driven simulation of a plan on one rank; all ranks are alike. The compute stream runs
// operations in order. Before each operation it waits for the reductions whose waits are at this
// position and for the gathers that the operation uses. A collective starts when the compute stream
// has reached the position of its launch and its lane is free. An all-reduce over replicas starts
// when its reduction has ended and its lane is free. Computation waits for it at the position of
// the update, after all other waits there. Linear in operations plus collectives.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_SIMULATE_H
#define FSDP_SCHEDULE_SIMULATE_H

#include "fsdp/Schedule/Plan.h"

#include <span>

namespace fsdp::schedule {

struct Interval {
  double startNs = 0, endNs = 0;
};

struct Timeline {
  double makespanNs = 0;            // when the last operation and the last collective have ended
  std::vector<Interval> operations; // by operation
  std::vector<Interval> gathers;    // by bucket
  std::vector<Interval> reductions; // by bucket
  std::vector<std::optional<Interval>> across; // all-reduce over replicas, by reduction bucket
  /// By bucket: exposed communication, the time for which the compute stream waits for it.
  std::vector<double> exposedGatherNs, exposedReductionNs, exposedAcrossNs;
};

/// The plan's timeline. The plan must pass `verify`.
Timeline simulate(const Problem &problem, const Plan &plan);

/// The makespan alone, faster.
double makespanNs(const Problem &problem, const Plan &plan);

/// Random variation of durations by log-normal factors of mean 1 and the given relative standard
/// deviation. Each collective has one factor. Computation has one factor per rank for each stretch
/// between two events: a use begins or ends, gradients are ready, an update. Ranks meet in
/// collectives and wait for the slowest rank, so the largest factor of a stretch counts.
struct Jitter {
  double computeSpread = 0, networkSpread = 0;
  uint32_t ranks = 1;
  uint32_t samples = 200;
  uint64_t seed = 0;
  bool operator==(const Jitter &) const = default;
};
struct JitteredMakespan {
  double meanNs = 0, percentile95Ns = 0;
};
/// Deterministic for a given seed, on every machine. Several plans are simulated with the same
/// factors for operations and for each group's collectives, so results differ by the plans alone.
JitteredMakespan simulate(const Problem &problem, const Plan &plan, const Jitter &jitter);
std::vector<JitteredMakespan> simulate(const Problem &problem, std::span<const Plan *const> plans,
                                       const Jitter &jitter);

} // namespace fsdp::schedule

#endif // FSDP_SCHEDULE_SIMULATE_H
