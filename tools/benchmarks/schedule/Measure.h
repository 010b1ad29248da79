//===- Measure.h - One instance under one cap ---------------------*- C++ -*-===//

#ifndef FSDP_BENCHMARKS_SCHEDULE_MEASURE_H
#define FSDP_BENCHMARKS_SCHEDULE_MEASURE_H

#include "Instances.h"
#include "fsdp/Schedule/Optimize.h"
#include "fsdp/Schedule/Policies.h"

namespace fsdp::benchmark {

/// What step / bound should come to at most: of captured models on shards, and of others.
inline constexpr double kCapturedGoal = 1.002, kGoal = 1.05;

struct MeasureOptions {
  schedule::OptimizeOptions optimize; // with no certificate
  /// Where that misses the instance's goal: how many more plans, by other seeds, simulations of
  /// each, and nodes of a branch and bound up to the goal; 0: none.
  int64_t thoroughPlans = 0, thoroughBudget = 200'000, nodes = 0;
};

struct Measurement {
  std::string name, family;
  double capFactor = 1; // times the minimum peak
  size_t operations = 0, uses = 0;
  double makespanNs = 0, boundNs = 0;
  std::string boundKind, origin;
  int64_t simulations = 0;
  double seconds = 0; // of the processor, for the first plan and its bound
  uint64_t planHash = 0;
  std::string complaint; // of verify(); empty: none
  struct Peer {
    std::string name;
    std::optional<double> makespanNs; // none: no plan under this cap
  };
  std::vector<Peer> peers;

  double ratio() const { return makespanNs / boundNs; }
  bool isCaptured() const { return family != "random" && family != "tiny"; }
  bool hasReplicas() const { return family == "replicas"; }
  double goal() const { return isCaptured() && !hasReplicas() ? kCapturedGoal : kGoal; }
  /// The best of the peers; infinite if none has a plan.
  double bestPeerNs() const;
};

Measurement measure(const Instance &instance, double capFactor, const MeasureOptions &options);

/// The same for the same plan on every machine.
uint64_t hashOf(const schedule::Plan &plan);

/// The tables of the summary, on standard output. Returns whether every goal is met.
bool printSummary(const std::vector<Measurement> &measurements);
void writeJson(const std::vector<Measurement> &measurements, const std::string &path);

} // namespace fsdp::benchmark

#endif // FSDP_BENCHMARKS_SCHEDULE_MEASURE_H
