//===- RandomProblem.cpp - Problems to test with --------------------------===//

#include "RandomProblem.h"

#include <algorithm>
#include <numeric>
#include <tuple>

using namespace fsdp::schedule;

/// Sometimes some groups are of a second mesh.
static void addMesh(Random &random, Problem &problem) {
  if (!random.chance(0.25))
    return;
  Mesh mesh = problem.meshes.front();
  double factor = double(random.integer(0, 3));
  for (CollectiveCost *cost : {&mesh.gatherCost, &mesh.reduceCost})
    *cost = {cost->latencyNs * factor, cost->nsPerByte * double(random.integer(1, 3))};
  if (random.chance(0.5))
    mesh.acrossCost = mesh.acrossCost ? std::nullopt : std::optional(mesh.reduceCost);
  problem.meshes.push_back(mesh);
  for (Group &group : problem.groups)
    group.mesh = uint32_t(random.integer(0, 1));
}

/// Some meshes may, or must, be gathered by copy engines.
static void addCopyEngines(Random &random, Problem &problem) {
  if (!random.chance(0.3))
    return;
  problem.contention.copyEngines =
      1 + (problem.contention.gathers - 1) * double(random.integer(0, 2)) / 2;
  for (Mesh &mesh : problem.meshes)
    if (random.chance(0.7)) {
      mesh.copyEngineCost = {mesh.gatherCost.latencyNs * double(random.integer(0, 3)),
                             mesh.gatherCost.nsPerByte * double(random.integer(1, 3)) / 2};
      mesh.copyEngineOnly = random.chance(0.2);
    }
}

/// Chunks of some groups may wait on the host. The draws are of their own, so that the rest of the
/// problem does not depend on them.
static void addHostChunks(Problem &problem) {
  Random random(problem.operations.size() + 1000 * problem.uses.size());
  if (!random.chance(0.5))
    return;
  for (Group &group : problem.groups)
    if (!group.chunks.empty() && random.chance(0.8)) {
      Chunk chunk = group.chunks.front();
      chunk.isOnHost = true;
      chunk.gatherCost = chunk.gatherCost.plus(double(random.integer(0, 2)), 0)
                             .scaled(double(random.integer(2, 6)) / 2);
      group.chunks.push_back(chunk);
    }
  for (Use &use : problem.uses)
    use.storedBy = uint32_t(
        std::min<int64_t>(use.last + random.integer(0, 5), int64_t(problem.operations.size()) - 1));
}

/// Durations of a quarter to sixteen times the bytes, on the line or above it.
static void addCurves(Random &random, double meanBytes, Mesh &mesh) {
  for (CollectiveCost *cost : {&mesh.gatherCost, &mesh.reduceCost}) {
    std::vector<CurvePoint> points;
    double leastNs = cost->latencyNs;
    for (double factor : {1. / 4, 1., 4., 16.}) {
      const auto bytes = points.size() + 1 + int64_t(meanBytes * factor);
      leastNs = std::max(leastNs, (cost->latencyNs + cost->nsPerByte * double(bytes)) *
                                      (random.chance(0.5) ? 1 : random.real(1, 1.5)));
      points.push_back({int64_t(bytes), leastNs});
    }
    cost->curve = std::make_shared<CollectiveCurve>(cost->latencyNs, std::move(points));
  }
}

namespace {

class StepBuilder {
public:
  StepBuilder(Random &random, const RandomProblemOptions &options)
      : random(random), options(options) {}
  Problem build();

private:
  struct Block {
    int64_t numOperations, savedBytes, temporaryBytes;
    double durationNs; // of the forward
  };

  uint32_t add(double durationNs, int64_t bytes);
  void forward(uint32_t group);
  void backward(uint32_t group, bool isReduced);
  void update(size_t reduction);
  void finish();

  Random &random;
  const RandomProblemOptions &options;
  Problem problem;
  std::vector<Block> blocks; // by group
  int64_t stateBytes = 0, savedBytes = 0;
  int64_t shardFraction = 1;
};

} // namespace

uint32_t StepBuilder::add(double durationNs, int64_t bytes) {
  problem.operations.push_back({durationNs, stateBytes + savedBytes + bytes, 0});
  return problem.operations.size() - 1;
}

void StepBuilder::forward(uint32_t group) {
  const Block &block = blocks[group];
  uint32_t first = problem.operations.size();
  for (int64_t i = 0; i < block.numOperations; ++i) {
    savedBytes += block.savedBytes / block.numOperations;
    int64_t temporaryBytes = random.integer(0, block.temporaryBytes);
    double share = random.real(0.2, 1.8);
    add(block.durationNs / double(block.numOperations) * share, temporaryBytes);
  }
  problem.uses.push_back({group, first, uint32_t(problem.operations.size() - 1)});
}

void StepBuilder::backward(uint32_t group, bool isReduced) {
  const Block &block = blocks[group];
  int64_t gradientBytes = problem.groups[group].gatheredBytes * random.integer(1, 2);
  uint32_t first = problem.operations.size();
  for (int64_t i = 0; i < block.numOperations; ++i) {
    int64_t temporaryBytes = random.integer(0, block.temporaryBytes);
    double share = random.real(0.2, 1.8);
    add(2 * block.durationNs / double(block.numOperations) * share,
        temporaryBytes + (isReduced ? gradientBytes * (i + 1) / block.numOperations : 0));
    savedBytes -= block.savedBytes / block.numOperations;
  }
  uint32_t last = problem.operations.size() - 1;
  problem.uses.push_back({group, first, last});
  if (isReduced)
    problem.reductions.push_back(
        {group, last + 1, 0, gradientBytes, gradientBytes / shardFraction});
}

void StepBuilder::update(size_t reduction) {
  problem.reductions[reduction].update =
      add(random.real(1e3, 1e4), problem.reductions[reduction].outputBytes / 2);
}

static void sortEvents(Problem &problem) {
  std::stable_sort(problem.uses.begin(), problem.uses.end(), [](const Use &a, const Use &b) {
    return std::tie(a.first, a.last) < std::tie(b.first, b.last);
  });
  std::stable_sort(problem.reductions.begin(), problem.reductions.end(),
                   [](const Reduction &a, const Reduction &b) {
                     return std::tie(a.ready, a.update) < std::tie(b.ready, b.update);
                   });
}

void StepBuilder::finish() {
  for (size_t i = 0; i < problem.operations.size(); ++i) {
    Operation &operation = problem.operations[i];
    if (i > 0) {
      int64_t most = std::min(problem.operations[i - 1].liveBytes, operation.liveBytes);
      operation.carriedBytes =
          std::max(int64_t(double(most) * random.real(0.5, 1)), std::min(most, stateBytes));
    }
  }
  sortEvents(problem);
}

Problem StepBuilder::build() {
  int64_t numGroups = random.integer(options.minBlocks, options.maxBlocks) + 2;
  double meanBytes = double(1 << random.integer(12, 22));
  double spread = random.real(0.1, 1);
  double nsPerByte = random.real(0.002, 0.02);
  double computeRatio = random.real(0.2, 3); // computation to communication
  static constexpr int64_t kRanks[] = {1, 2, 8, 64, 1024};
  shardFraction = kRanks[random.integer(0, 4)];
  stateBytes = int64_t(meanBytes * double(numGroups)) / shardFraction;
  bool mayKeep = random.chance(0.3);
  for (int64_t i = 0; i < numGroups; ++i) {
    int64_t bytes = int64_t(meanBytes * random.real(1 - 0.9 * spread, 1 + 2 * spread)) + 1;
    Group group{"layers." + std::to_string(i), bytes};
    if (mayKeep && random.chance(0.3))
      group.keep = random.chance(0.5) ? KeepRule::Always : KeepRule::Never;
    problem.groups.push_back(std::move(group));
    int64_t numOperations = random.integer(1, options.maxOperationsPerBlock);
    blocks.push_back({numOperations, int64_t(double(bytes) * random.real(0.05, 3)),
                      int64_t(double(bytes) * random.real(0, 0.5)),
                      double(bytes) * nsPerByte * computeRatio * random.real(0.4, 2)});
  }
  double latencyNs = meanBytes * nsPerByte * random.real(0, 1);
  problem.meshes[0].gatherCost = {latencyNs, nsPerByte};
  problem.meshes[0].reduceCost = {latencyNs, nsPerByte * random.real(0.5, 1.5)};
  problem.oneLane = random.chance(0.35);
  static constexpr double kLaneContention[] = {1, 1, 1.5, 2};
  static constexpr double kComputeContention[] = {1, 1, 1.07, 1.15};
  problem.contention.lanes = problem.oneLane ? 1 : kLaneContention[random.integer(0, 3)];
  problem.contention.setOfComputation(kComputeContention[random.integer(0, 3)]);

  int64_t numMicrobatches = random.chance(0.15) ? 2 : 1;
  bool updatesAtEnd = random.chance(0.5);
  for (int64_t i = 0; i < numMicrobatches; ++i) {
    bool isReduced = i + 1 == numMicrobatches;
    for (uint32_t group = 0; group < numGroups; ++group)
      forward(group);
    for (uint32_t group = numGroups; group-- > 0;) {
      backward(group, isReduced);
      if (isReduced && !updatesAtEnd && problem.reductions.size() > 1)
        update(problem.reductions.size() - 2);
    }
  }
  for (size_t i = updatesAtEnd ? 0 : problem.reductions.size() - 1; i < problem.reductions.size();
       ++i)
    update(i);
  finish();
  if (random.chance(0.3)) {
    double perByte = nsPerByte * double(shardFraction) * random.real(0.1, 1.5);
    problem.meshes[0].acrossCost = {latencyNs * random.real(0, 2), perByte};
    problem.contention.replicas =
        random.chance(0.4) ? 1.5 + double(problem.operations.size() % 2) / 2 : 1;
  }
  if (random.chance(0.4)) {
    int64_t ranks = random.integer(1, 8);
    CollectiveCost cost{latencyNs * random.real(0, 1.1), nsPerByte * random.real(0.1, 1.1)};
    for (Group &group : problem.groups)
      if (random.chance(0.8))
        group.chunks = {{ranks, group.gatheredBytes / ranks,
                         double(group.gatheredBytes) * nsPerByte * random.real(0, 0.1), cost}};
    addHostChunks(problem);
  }
  addMesh(random, problem);
  addCopyEngines(random, problem);
  return std::move(problem);
}

Problem fsdp::schedule::makeRandomProblem(uint64_t seed, const RandomProblemOptions &options) {
  Random random(seed);
  return StepBuilder(random, options).build();
}

/// Carried bytes and costs, in small numbers; uses and reductions in order.
static void finishTiny(Random &random, Problem &problem) {
  for (size_t i = 1; i < problem.operations.size(); ++i) {
    int64_t most = std::min(problem.operations[i - 1].liveBytes, problem.operations[i].liveBytes);
    problem.operations[i].carriedBytes = random.integer(0, most);
  }
  problem.meshes[0].gatherCost = {double(random.integer(0, 5)), double(random.integer(1, 4))};
  problem.meshes[0].reduceCost = {double(random.integer(0, 5)), double(random.integer(1, 4))};
  problem.oneLane = random.chance(0.3);
  problem.contention.lanes =
      random.chance(0.3) ? 1.5 + double(problem.operations.size() % 2) / 2 : 1;
  problem.contention.setOfComputation(random.chance(0.3) ? 1.25 : 1);
  sortEvents(problem);
  if (random.chance(0.3)) {
    problem.meshes[0].acrossCost = {double(random.integer(0, 5)), double(random.integer(1, 8))};
    problem.contention.replicas =
        random.chance(0.4) ? 1.5 + double(problem.operations.size() % 2) / 2 : 1;
  }
  if (random.chance(0.4)) {
    CollectiveCost cost{double(random.integer(0, 5)), double(random.integer(0, 3))};
    for (Group &group : problem.groups)
      if (random.chance(0.8))
        group.chunks = {
            {2, random.integer(0, group.gatheredBytes), double(random.integer(0, 3)), cost}};
    addHostChunks(problem);
  }
  addMesh(random, problem);
  addCopyEngines(random, problem);
}

Problem fsdp::schedule::makeTinyProblem(uint64_t seed) {
  Random random(seed);
  Problem problem;
  int64_t numGroups = random.integer(1, 2);
  bool hasBackward = random.chance(0.8);
  for (int64_t i = 0; i < numGroups; ++i)
    problem.groups.push_back({"g" + std::to_string(i), random.integer(1, 8)});
  auto add = [&] {
    problem.operations.push_back({double(random.integer(1, 20)), random.integer(0, 6), 0});
    return uint32_t(problem.operations.size() - 1);
  };
  for (uint32_t group = 0; group < numGroups; ++group) {
    uint32_t at = add();
    problem.uses.push_back({group, at, at});
  }
  if (random.chance(0.5))
    add();
  for (uint32_t group = numGroups; hasBackward && group-- > 0;) {
    uint32_t at = add();
    problem.uses.push_back({group, at, at});
    int64_t inputBytes = problem.groups[group].gatheredBytes;
    problem.reductions.push_back({group, at + 1, 0, inputBytes, inputBytes / random.integer(1, 4)});
  }
  if (random.chance(0.5))
    add();
  for (Reduction &reduction : problem.reductions)
    reduction.update = add();
  finishTiny(random, problem);
  return problem;
}

void fsdp::schedule::addUnevenCosts(uint64_t seed, Problem &problem) {
  Random random(seed);
  if (random.chance(0.4)) {
    problem.contention.reductions = problem.contention.gathers * random.real(1, 1.3);
    problem.contention.several = problem.contention.reductions * random.real(1, 1.3);
  }
  if (random.chance(0.4))
    problem.contention.computation = random.real(1, 1.4);
  problem.coalesces = random.chance(0.8);
  if (!random.chance(0.4))
    return;
  double bytes = 0;
  for (const Group &group : problem.groups)
    bytes += double(group.gatheredBytes) / double(problem.groups.size());
  for (Mesh &mesh : problem.meshes)
    addCurves(random, bytes, mesh);
}

Problem fsdp::schedule::makeScatteredProblem(uint64_t seed) {
  Random random(seed);
  Problem problem;
  int64_t last = random.integer(3, 6);
  for (int64_t i = 0; i <= last; ++i)
    problem.operations.push_back({double(random.integer(0, 20)), random.integer(0, 6), 0});
  bool isForward = random.chance(0.25); // one use of each group, most of one size
  int64_t sizeBytes = random.integer(1, 8);
  for (uint32_t group = 0; group < (isForward ? 4 : 2); ++group) {
    bool isEqual = isForward && random.chance(0.8);
    problem.groups.push_back(
        {"g" + std::to_string(group), isEqual ? sizeBytes : random.integer(1, 8)});
    auto first = uint32_t(random.integer(0, last)), second = uint32_t(random.integer(0, last));
    problem.uses.push_back({group, first, first});
    if (second > first + 1 && !isForward)
      problem.uses.push_back({group, second, second});
  }
  int64_t mostReductions = isForward ? 1 : problem.uses.size() < 3 ? 3 : 2;
  for (int64_t count = random.integer(isForward ? 0 : 1, mostReductions); count > 0; --count) {
    int64_t ready = random.integer(1, random.chance(0.5) ? 2 : last),
            inputBytes = random.integer(1, 8);
    problem.reductions.push_back({0, uint32_t(ready), uint32_t(random.integer(ready, last)),
                                  inputBytes, inputBytes / random.integer(1, 4)});
  }
  finishTiny(random, problem);
  return problem;
}

Decisions fsdp::schedule::makeRandomDecisions(const Problem &problem, Random &random) {
  Decisions decisions;
  std::vector<int32_t> previous = problem.previousUses();
  decisions.kept.resize(problem.uses.size());
  double keepChance = random.real(0, 1), mergeChance = random.real(0, 0.6);
  bool hasGates = random.chance(0.5);
  double chunkChance = random.chance(0.5) ? random.real(0, 1) : 0;
  for (uint32_t i = 0; i < problem.uses.size(); ++i) {
    KeepRule rule = problem.groups[problem.uses[i].group].keep;
    decisions.kept[i] = previous[i] >= 0 && rule != KeepRule::Never &&
                        (rule == KeepRule::Always || random.chance(keepChance));
    if (decisions.kept[i])
      continue;
    const size_t numChunks = problem.groups[problem.uses[i].group].chunks.size();
    if (previous[i] >= 0 && numChunks > 0 && random.chance(chunkChance)) {
      decisions.chunked.resize(problem.uses.size());
      decisions.chunked[i] = numChunks > 1 ? random.integer(1, numChunks) : 1;
      if (problem.releasedAt(previous[i], decisions.chunked[i]) > problem.uses[i].first)
        decisions.chunked[i] = 1;
    }
    if (decisions.gathers.empty() || !random.chance(mergeChance))
      decisions.gathers.push_back(
          {{}, hasGates ? uint32_t(random.integer(0, problem.uses[i].first)) : 0});
    decisions.gathers.back().uses.push_back(i);
  }
  for (uint32_t i = 0; i < problem.reductions.size(); ++i) {
    if (decisions.reductions.empty() || !random.chance(mergeChance))
      decisions.reductions.emplace_back();
    decisions.reductions.back().push_back(i);
  }
  if (random.chance(0.3))
    for (const Reduction &reduction : problem.reductions)
      decisions.reductionGates.push_back(random.integer(reduction.ready, reduction.update));
  decisions.gathersGoFirst = random.integer(0, 1) == 1;
  decisions.shareLane = random.chance(0.3);
  if (random.chance(0.2))
    std::swap(decisions.gathers.front(),
              decisions.gathers[random.integer(0, decisions.gathers.size() - 1)]);
  if (problem.hasTransports())
    for (Decisions::Gathers &bucket : decisions.gathers)
      bucket.byCopyEngine = random.chance(0.5);
  return decisions;
}
