//===- Measure.cpp - One instance under one cap ---------------------------===//

#include "Measure.h"

#include "Peers.h"

#include "CaseBound.h"
#include "ExactSearch.h"
#include "fsdp/Schedule/Simulate.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <ctime>
#include <fstream>
#include <limits>

using namespace fsdp::benchmark;
using namespace fsdp::schedule;

double Measurement::bestPeerNs() const {
  double best = std::numeric_limits<double>::infinity();
  for (const Peer &peer : peers)
    best = std::min(best, peer.makespanNs.value_or(best));
  return best;
}

uint64_t fsdp::benchmark::hashOf(const Plan &plan) {
  uint64_t hash = 14695981039346656037u; // FNV-1a
  auto add = [&](uint64_t value) {
    for (int i = 0; i < 8; ++i, value >>= 8)
      hash = (hash ^ (value & 255)) * 1099511628211u;
  };
  auto addAll = [&](const auto &values) {
    add(values.size());
    for (auto value : values)
      add(value);
  };
  addAll(plan.kept);
  add(plan.gathers.size());
  for (const GatherBucket &bucket : plan.gathers) {
    addAll(bucket.uses);
    add(bucket.launch);
  }
  add(plan.reductions.size());
  for (const ReductionBucket &bucket : plan.reductions) {
    addAll(bucket.reductions);
    add(bucket.launch);
    add(bucket.wait);
  }
  add(plan.shareLane);
  return hash;
}

/// Raises the lower bound by an exact search, which has a bound even if it does not end.
static void raiseBoundExactly(const Problem &problem, int64_t partialPlans, Measurement &result) {
  std::optional<ExactResult> exact = searchExactly(problem, result.makespanNs, partialPlans);
  if (!exact || exact->boundNs <= result.boundNs)
    return;
  result.boundNs = exact->boundNs;
  result.boundKind = "exact";
}

/// Raises the lower bound by cases of kept chunks, if they raise it by more than 0.01 %.
static void raiseBoundByCases(const Problem &problem, Measurement &result) {
  constexpr double kLeastGain = 1.0001;
  constexpr size_t kMostUsesWithLatency = 130; // as in the search: latencies cost time
  const double boundNs =
      caseBound(problem, {.ignoreLatency = problem.uses.size() > kMostUsesWithLatency},
                result.boundNs * kLeastGain);
  if (boundNs <= result.boundNs)
    return;
  result.boundNs = boundNs;
  result.boundKind = "cases";
}

Measurement fsdp::benchmark::measure(const Instance &instance, double capFactor,
                                     const MeasureOptions &options) {
  Problem problem = instance.make();
  if (std::optional<std::string> wrong = problem.check()) {
    std::fprintf(stderr, "schedule-benchmark: error: %s: %s\n", instance.name.c_str(),
                 wrong->c_str());
    std::exit(1);
  }
  problem.memoryCapBytes = int64_t(double(problem.minimumPeak().bytes) * capFactor);

  std::clock_t begin = std::clock();
  std::optional<Outcome> outcome = optimize(problem, options.optimize);
  std::clock_t end = std::clock();
  Measurement result;
  result.name = instance.name;
  result.family = problem.meshes[0].acrossCost ? "replicas" : instance.family;
  result.capFactor = capFactor;
  result.operations = problem.operations.size();
  result.uses = problem.uses.size();
  result.seconds = double(end - begin) / CLOCKS_PER_SEC;
  if (!outcome) {
    result.complaint = "no plan";
    return result;
  }
  result.makespanNs = outcome->makespanNs;
  result.boundNs = outcome->bound.makespanNs;
  result.boundKind = getName(outcome->bound.kind);
  if (result.family == "tiny" ||
      (result.ratio() > kRaisedAbove && result.uses <= kMostUsesSearched))
    raiseBoundExactly(problem, options.partialPlans, result);
  else if (result.ratio() > kRaisedAbove)
    raiseBoundByCases(problem, result);
  result.origin = outcome->origin;
  result.simulations = outcome->simulations;
  result.planHash = hashOf(outcome->plan);
  result.complaint = verify(problem, outcome->plan).value_or("");
  auto addPeer = [&](std::string_view name, const std::optional<Plan> &plan) {
    result.peers.push_back(
        {std::string(name), plan ? std::optional(makespanNs(problem, *plan)) : std::nullopt});
  };
  addPeer(getName(Policy::Fsdp2), planByPolicy(problem, Policy::Fsdp2));
  for (Peer peer : {Peer::XlaLatencyHiding, Peer::DeepCompile, Peer::Inductor})
    addPeer(getName(peer), listSchedule(problem, decideAs(problem, peer)).plan);
  addPeer(getName(Policy::Asap), planByPolicy(problem, Policy::Asap));
  return result;
}

void fsdp::benchmark::writeJson(const std::vector<Measurement> &measurements,
                                const std::string &path) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Measurement &it : measurements) {
    char hash[17];
    std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(it.planHash));
    nlohmann::ordered_json peers;
    for (const Measurement::Peer &peer : it.peers)
      peers[peer.name] = peer.makespanNs ? nlohmann::ordered_json(*peer.makespanNs / it.boundNs)
                                         : nlohmann::ordered_json(nullptr);
    rows.push_back({{"instance", it.name},
                    {"family", it.family},
                    {"cap_over_minimum", it.capFactor},
                    {"operations", it.operations},
                    {"uses", it.uses},
                    {"makespan_ns", it.makespanNs},
                    {"bound_ns", it.boundNs},
                    {"bound_kind", it.boundKind},
                    {"makespan_over_bound", it.ratio()},
                    {"peers_over_bound", peers},
                    {"origin", it.origin},
                    {"simulations", it.simulations},
                    {"seconds", it.seconds},
                    {"plan_hash", hash},
                    {"complaint", it.complaint}});
  }
  std::ofstream file(path);
  file << rows.dump(1) << "\n";
  if (!file.flush()) {
    std::fprintf(stderr, "schedule-benchmark: error: cannot write '%s'\n", path.c_str());
    std::exit(1);
  }
}
