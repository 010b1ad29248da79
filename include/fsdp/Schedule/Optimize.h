//===- Optimize.h - The best plan under the cap, with a bound -----*- C++ -*-===//
//
// Algorithm `auto`: starts from the list schedule and from every policy's decisions, stops when the
// bound is met, else solves the linear program, rounds it, descends over keeps, buckets, gates and
// lane order, and refines by simulated annealing.
// Deterministic for a seed and a budget, which counts simulations, never seconds.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_OPTIMIZE_H
#define FSDP_SCHEDULE_OPTIMIZE_H

#include "fsdp/Schedule/LowerBound.h"
#include "fsdp/Schedule/Plan.h"
#include "fsdp/Schedule/Simulate.h"

namespace fsdp::schedule {

struct OptimizeOptions {
  uint64_t seed = 0;
  int64_t simulationBudget = 3000;
  /// Stop when makespan / bound is at most this.
  double targetRatio = 1.001;
  /// A bound that the caller knows, as of a problem with more memory: met, it ends the search.
  double knownBoundNs = 0;
  /// The most bytes that a bucket of several members may move, gathered or not yet reduced. 0: each
  /// collective is a launch of its own.
  std::optional<int64_t> maxBucketBytes = std::nullopt;
  /// Where means are within 0.2 %, prefer the plan whose 95th percentile is smaller.
  std::optional<Jitter> jitter = std::nullopt;
};

struct Outcome {
  Plan plan;
  double makespanNs = 0;
  LowerBound bound;
  int64_t simulations = 0;
  /// Where the plan came from, for people: "list schedule", "fluid rounding", "local search", ...
  std::string origin;
  double ratio() const { return makespanNs / bound.makespanNs; }
};

/// None if not even the minimum peak fits the cap.
std::optional<Outcome> optimize(const Problem &problem, const OptimizeOptions &options);

} // namespace fsdp::schedule

#endif // FSDP_SCHEDULE_OPTIMIZE_H
