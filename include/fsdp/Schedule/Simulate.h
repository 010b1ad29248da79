//===- Simulate.h - How long a plan takes -------------------------*- C++ -*-===//
//
// Event-driven simulation of a plan on one rank, all ranks alike. The compute stream runs
// operations in order; before each it waits, at its position, for the reductions that the plan
// waits for there and for the gathers that it uses. A collective starts when the compute stream has
// reached its launch's position and its lane is free. Over replicas, what a reduction leaves goes
// on when it has ended and its lane is free; before the update, behind all else, computation waits
// for it. Linear in operations plus collectives.
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
  double makespanNs = 0;            // end of the last operation, and of the last collective
  std::vector<Interval> operations; // by operation
  std::vector<Interval> gathers;    // by bucket
  std::vector<Interval> reductions; // by bucket
  std::vector<std::optional<Interval>> across; // over replicas, by bucket of reductions
  /// By bucket: how long the compute stream stood still for it.
  std::vector<double> exposedGatherNs, exposedReductionNs, exposedAcrossNs;
};

/// The plan's timeline. The plan must pass `verify`.
Timeline simulate(const Problem &problem, const Plan &plan);

/// The makespan alone, faster.
double makespanNs(const Problem &problem, const Plan &plan);

/// Random variation of durations: log-normal factors of mean 1 and this relative standard
/// deviation. Each collective has one. Of computation each stretch between events of the problem
/// (a use begins or ends, gradients are ready, an update) has one on each rank: the ranks meet in
/// collectives, and wait there for the slowest, so that the largest of these factors counts.
struct Jitter {
  double computeSpread = 0, networkSpread = 0;
  uint32_t ranks = 1;
  uint32_t samples = 200;
  uint64_t seed = 0;
};
struct JitteredMakespan {
  double meanNs = 0, percentile95Ns = 0;
};
/// Deterministic for a given seed, on every machine. Of several plans, under the same durations of
/// operations and of each group's collectives, so that differences are those of the plans.
JitteredMakespan simulate(const Problem &problem, const Plan &plan, const Jitter &jitter);
std::vector<JitteredMakespan> simulate(const Problem &problem, std::span<const Plan *const> plans,
                                       const Jitter &jitter);

} // namespace fsdp::schedule

#endif // FSDP_SCHEDULE_SIMULATE_H
