//===- Instances.cpp - Problems for the benchmark -------------------------===//

#include "Instances.h"
#include "ProblemFile.h"
#include "Steps.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <numbers>
#include <random>

using namespace fsdp::benchmark;
using fsdp::schedule::Problem;

namespace {

/// Random numbers that do not depend on the standard library.
class Random {
public:
  explicit Random(uint64_t seed) : generator(seed) {}
  double uniform(double low, double high) {
    return low + (high - low) * double(generator() >> 11) * 0x1p-53;
  }
  int integer(int low, int high) { return low + int(generator() % uint64_t(high - low + 1)); }
  bool chance(double probability) { return uniform(0, 1) < probability; }
  double normal(double deviation) {
    double radius = std::sqrt(-2 * std::log(1 - uniform(0, 1)));
    return deviation * radius * std::cos(2 * std::numbers::pi * uniform(0, 1));
  }
  template <typename T> T choose(std::initializer_list<T> values) {
    return values.begin()[integer(0, int(values.size()) - 1)];
  }

private:
  std::mt19937_64 generator;
};

class InstanceList {
public:
  void add(std::string name, std::string family, Model model, Deployment deployment) {
    instances.push_back(
        {std::move(name), std::move(family), [=] { return makeStep(model, deployment); }});
  }
  void addRandom(uint64_t seed, Granularity granularity);
  void addTiny(uint64_t seed);

  std::vector<Instance> instances;
};

} // namespace

/// Adds a random instance: compute from much faster to much slower than communication, groups from
/// equal to very different sizes.
void InstanceList::addRandom(uint64_t seed, Granularity granularity) {
  Random random(seed);
  Deployment deployment{.ranks = random.choose({8, 16, 64, 256, 1024}),
                        .recompute = random.chance(.3),
                        .reduceInFp32 = random.chance(.4),
                        .clipGradients = random.chance(.2),
                        .oneLane = random.chance(1. / 3),
                        .laneContention = random.choose({1., 1., 1.5, 2.}),
                        .computeContention = random.choose({1., 1.07, 1.15}),
                        .granularity = granularity};
  double computeOverNetwork = std::pow(10, random.uniform(-.5, .7));
  double scale = std::pow(10, random.uniform(6.5, 8.6));
  double deviation = random.choose({.3, .8, 1.5});
  Model model;
  for (int i = random.integer(6, 40); i > 0; --i) {
    double parameters = scale * std::exp(random.normal(deviation));
    double gatherNs = parameters * 2 / 330;
    model.blocks.push_back(
        {.parameters = parameters,
         .forwardFlops = gatherNs * computeOverNetwork * std::exp(random.normal(.4)) * 600e3,
         .savedBytes = parameters * 2 * std::pow(10, random.uniform(-1, .7)),
         .temporaryBytes = parameters * 2 * random.uniform(.05, .5),
         .inputBytes = 4096 * 1024 * 2});
  }
  model.embeddingParameters = scale * random.uniform(.1, 2);
  model.headParameters = scale * random.uniform(.1, 2);
  model.tokens = 4096;
  model.hidden = 1024;
  model.logitBytes = scale * 2 * random.uniform(.1, 3);
  std::string name = "random-" + std::to_string(seed) + (granularity.forward < 10 ? "-coarse" : "");
  add(name, "random", std::move(model), deployment);
}

/// Adds an instance with few blocks of few operations, whose collectives are mostly latency.
void InstanceList::addTiny(uint64_t seed) {
  Random random(1000 + seed);
  double computeOverNetwork = std::pow(10, random.uniform(-.4, .5));
  double scale = std::pow(10, random.uniform(6.3, 8.5));
  double deviation = random.choose({0., .3, 1.});
  Model model;
  for (int i = random.integer(3, 6); i > 0; --i) {
    double parameters = scale * std::exp(random.normal(deviation));
    double gatherNs = parameters * 2 / 410;
    model.blocks.push_back(
        {.parameters = parameters,
         .forwardFlops = gatherNs * computeOverNetwork * std::exp(random.normal(.3)) * 600e3,
         .savedBytes = parameters * 2 * random.uniform(.1, 2),
         .temporaryBytes = parameters * 2 * random.uniform(.05, .3)});
  }
  model.embeddingParameters = scale * random.uniform(.1, 1);
  model.headParameters = scale * random.uniform(.1, 1);
  model.tokens = 4096;
  model.hidden = 1024;
  model.logitBytes = scale * 2 * random.uniform(.1, 2);
  add("tiny-" + std::to_string(seed), "tiny", std::move(model),
      {.reduceInFp32 = random.chance(.4), .granularity = {2, 2}});
}

std::vector<Instance> fsdp::benchmark::makeRandomInstances() {
  InstanceList list;
  for (uint64_t seed = 0; seed < 24; ++seed)
    list.addRandom(seed, seed % 3 == 2 ? kCoarse : kFine);
  for (uint64_t seed = 0; seed < 8; ++seed)
    list.addTiny(seed);
  return std::move(list.instances);
}

std::optional<std::string>
fsdp::benchmark::listCapturedInstances(const std::string &folder,
                                       std::vector<Instance> &instances) {
  std::error_code error;
  std::vector<std::filesystem::path> paths;
  for (const auto &entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().extension() == ".json")
      paths.push_back(entry.path());
  if (error)
    return "cannot read the folder '" + folder + "': " + error.message();
  if (paths.empty())
    return "the folder '" + folder + "' has no problems";
  std::sort(paths.begin(), paths.end());
  for (const std::filesystem::path &path : paths) {
    std::string name = path.stem().string();
    instances.push_back({name, name.substr(0, name.find('-')), [path] {
                           Problem problem;
                           if (std::optional<std::string> wrong = readProblem(path, problem)) {
                             std::fprintf(stderr, "schedule-benchmark: error: %s\n",
                                          wrong->c_str());
                             std::exit(1);
                           }
                           return problem;
                         }});
  }
  return std::nullopt;
}

Problem fsdp::benchmark::makeDeepDecoder(int layers, double tokens) {
  return makeStep(makeDecoder(layers, tokens), {});
}
