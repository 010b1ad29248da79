//===- schedule-benchmark.cpp - How close plans come to the bound ---------===//
//
// Runs `auto` on captured and on random training steps under several memory caps, and compares it
// with the proven lower bound and with other compilers' decisions. Prints one line per instance,
// then tables.
//
//===----------------------------------------------------------------------===//

#include "Measure.h"

#include "fsdp/Schedule/ListSchedule.h"
#include "fsdp/Schedule/Simulate.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <ctime>
#include <limits>

using namespace fsdp::benchmark;
using namespace fsdp::schedule;

namespace {
struct Options {
  std::string problems, filter, jsonPath;
  size_t instances = 0;
  std::vector<double> caps{std::begin(kCaps), std::end(kCaps)};
  MeasureOptions measure;
  bool repeat = false, scaling = false, requireGoals = false;
};
} // namespace

/// Selects `options.instances` instances, spread evenly; 0: all.
static std::vector<Instance> select(const Options &options, const std::vector<Instance> &all) {
  std::vector<Instance> matching, selected;
  for (const Instance &instance : all)
    if (instance.name.find(options.filter) != std::string::npos)
      matching.push_back(instance);
  if (options.instances == 0 || options.instances >= matching.size())
    return matching;
  for (size_t i = 0; i < options.instances; ++i)
    selected.push_back(matching[i * matching.size() / options.instances]);
  return selected;
}

static void printMeasurement(const Measurement &it) {
  std::printf("%-38s cap %.2f  %6zu ops  ", it.name.c_str(), it.capFactor, it.operations);
  if (!it.complaint.empty())
    std::printf("INVALID: %s\n", it.complaint.c_str());
  else
    std::printf("%.4f of %-7s  best peer %.4f  %5lld simulations  %.3f s  %s\n", it.ratio(),
                it.boundKind.c_str(), it.bestPeerNs() / it.boundNs,
                static_cast<long long>(it.simulations), it.seconds, it.origin.c_str());
  std::fflush(stdout);
}

/// CPU seconds per call, the best of a few calls.
template <typename Function> static double time(Function function) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 5; ++i) {
    std::clock_t begin = std::clock();
    function();
    best = std::min(best, double(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  return best;
}

static void printScaling() {
  std::printf("%7s %8s  %14s %14s %14s %12s\n", "layers", "ops", "simulate", "list schedule",
              "quick bound", "ns per op");
  for (int layers : {16, 32, 126, 512, 1024, 1900}) {
    Problem problem = makeDeepDecoder(layers, 2048);
    problem.memoryCapBytes = problem.minimumPeak().bytes / 100 * 105;
    Decisions decisions = decideByPolicy(problem, Policy::Asap);
    ListScheduleResult result;
    double listSeconds = time([&] { result = listSchedule(problem, decisions); });
    double simulateSeconds = time([&] { makespanNs(problem, *result.plan); });
    double boundSeconds = time([&] { quickBound(problem); });
    std::printf("%7d %8zu  %11.3f ms %11.3f ms %11.3f ms %5.1f + %5.1f\n", layers,
                problem.operations.size(), simulateSeconds * 1e3, listSeconds * 1e3,
                boundSeconds * 1e3, simulateSeconds * 1e9 / double(problem.operations.size()),
                listSeconds * 1e9 / double(problem.operations.size()));
  }
}

int main(int argc, char **argv) {
  CLI::App app("Measures how close schedules of `auto` come to the proven lower bound.");
  Options options;
  app.add_option("--problems", options.problems,
                 "Folder of captured problems (captured.py); without it only random problems");
  app.add_option("--filter", options.filter, "Only instances whose name contains this");
  app.add_option("--instances", options.instances, "Number of instances, spread evenly; 0: all");
  app.add_option("--caps", options.caps, "Memory caps, times the minimum peak")
      ->delimiter(',')
      ->check(CLI::Range(1., 1000.));
  app.add_option("--budget", options.measure.optimize.simulationBudget,
                 "Simulations of a search, which may be repeated")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--partial-plans", options.measure.partialPlans,
                 "Limit of the exact search for the bounds of small instances; 0: no search")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--seed", options.measure.optimize.seed, "Seed of the local search");
  app.add_option("--json", options.jsonPath, "Write the measurements to this file");
  app.add_flag("--repeat", options.repeat, "Run everything twice and compare the plans");
  app.add_flag("--scaling", options.scaling,
               "Print only the table of time by number of operations");
  app.add_flag("--require-goals", options.requireGoals, "Fail if a goal is missed");
  CLI11_PARSE(app, argc, argv);
  if (options.scaling) {
    printScaling();
    return 0;
  }

  std::vector<Instance> instances;
  if (!options.problems.empty())
    if (std::optional<std::string> wrong = listCapturedInstances(options.problems, instances)) {
      std::fprintf(stderr, "schedule-benchmark: error: %s\n", wrong->c_str());
      return 1;
    }
  for (Instance &instance : makeRandomInstances())
    instances.push_back(std::move(instance));

  std::vector<Measurement> measurements;
  size_t different = 0;
  bool valid = true;
  for (const Instance &instance : select(options, instances))
    for (double cap : options.caps) {
      measurements.push_back(measure(instance, cap, options.measure));
      printMeasurement(measurements.back());
      valid &= measurements.back().complaint.empty();
      if (options.repeat)
        different +=
            measure(instance, cap, options.measure).planHash != measurements.back().planHash;
    }
  if (measurements.empty()) {
    std::fprintf(stderr, "schedule-benchmark: error: no instance's name contains '%s'\n",
                 options.filter.c_str());
    return 1;
  }
  bool goals = printSummary(measurements);
  if (options.repeat)
    std::printf("%-4s %-44s %zu of %zu differ\n", different ? "NO" : "yes",
                "the same plan when run again", different, measurements.size());
  if (!options.jsonPath.empty())
    writeJson(measurements, options.jsonPath);
  return valid && different == 0 && (goals || !options.requireGoals) ? 0 : 1;
}
