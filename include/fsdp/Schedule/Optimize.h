//===- Optimize.h - The best plan under the cap, with a bound -----*- C++ -*-===//
//
// Algorithm `auto`. The first plans are those of the policies, and the list schedules of the
// policies' decisions. If none meets the quick lower bound, the linear program is solved, a
// coordinate descent chooses keeps, buckets, gates and lanes, and simulated annealing refines the
// best plan. The search stops when a plan meets the bound.
// Deterministic for a seed and a budget. The budget counts simulations, never seconds.
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
  /// The simulations of one search. If it ends far from the bound, a second search has
  /// `kSecondSearch` times as many.
  int64_t simulationBudget = 3000;
  static constexpr double kFarFromBound = 1.01; // makespan / bound
  static constexpr int64_t kSecondSearch = 3;
  /// The search stops when makespan / bound is at most this.
  double targetRatio = 1.001;
  /// A lower bound that the caller knows, such as that of a problem with more memory. The search
  /// also stops when a plan meets it.
  double knownBoundNs = 0;
  /// The most that a bucket of several members may move, counted in gathered bytes or in bytes
  /// before the reduction. 0: each collective is a launch of its own.
  std::optional<int64_t> maxBucketBytes = std::nullopt;
  /// If set: of plans whose means are within 0.2 %, the one with the lowest 95th percentile wins.
  std::optional<Jitter> jitter = std::nullopt;
  bool operator==(const OptimizeOptions &) const = default;
};

struct Outcome {
  Plan plan;
  double makespanNs = 0;
  LowerBound bound;
  int64_t simulations = 0;
  /// The step that found the plan, for people: "fsdp2", "coordinate descent", "local search", ...
  std::string origin;
  double ratio() const { return makespanNs / bound.makespanNs; }
};

/// Nullopt if the minimum peak exceeds the cap.
std::optional<Outcome> optimize(const Problem &problem, const OptimizeOptions &options);

} // namespace fsdp::schedule

#endif // FSDP_SCHEDULE_OPTIMIZE_H
