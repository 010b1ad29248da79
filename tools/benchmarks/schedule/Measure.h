//===- Measure.h - One instance under one cap ---------------------*- C++ -*-===//

#ifndef FSDP_BENCHMARKS_SCHEDULE_MEASURE_H
#define FSDP_BENCHMARKS_SCHEDULE_MEASURE_H

#include "Instances.h"
#include "fsdp/Schedule/Optimize.h"
#include "fsdp/Schedule/Policies.h"

namespace fsdp::benchmark {

/// Goal for step / bound on captured models.
inline constexpr double kCapturedGoal = 1.02;

/// Where step / bound is above this, stronger bounds are tried: an exact search of problems with so
/// few uses, else cases of kept chunks. Either takes up to 20 s.
inline constexpr double kRaisedAbove = 1.005;
inline constexpr size_t kMostUsesSearched = 16;

struct MeasureOptions {
  schedule::OptimizeOptions optimize;
  /// Partial plans of an exact search; 0: no search.
  int64_t partialPlans = 3'000'000;
};

struct Measurement {
  std::string name, family;
  double capFactor = 1; // times the minimum peak
  size_t operations = 0, uses = 0;
  double makespanNs = 0, boundNs = 0;
  std::string boundKind, origin;
  int64_t simulations = 0;
  double seconds = 0; // CPU time, for the first plan and its bound
  uint64_t planHash = 0;
  std::string complaint; // error of verify(); empty: none
  struct Peer {
    std::string name;
    std::optional<double> makespanNs; // none: no plan under this cap
  };
  std::vector<Peer> peers;

  double ratio() const { return makespanNs / boundNs; }
  bool isCaptured() const { return family != "random" && family != "tiny"; }
  bool hasReplicas() const { return family == "replicas"; }
  /// The makespan of the best peer; infinite if no peer has a plan.
  double bestPeerNs() const;
};

Measurement measure(const Instance &instance, double capFactor, const MeasureOptions &options);

/// A hash that is the same for the same plan on every machine.
uint64_t hashOf(const schedule::Plan &plan);

/// Prints the tables of the summary. Returns whether every goal is met.
bool printSummary(const std::vector<Measurement> &measurements);
void writeJson(const std::vector<Measurement> &measurements, const std::string &path);

} // namespace fsdp::benchmark

#endif // FSDP_BENCHMARKS_SCHEDULE_MEASURE_H
