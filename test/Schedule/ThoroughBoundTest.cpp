//===- ThoroughBoundTest.cpp - Rows of the linear program for searches ----===//

#include "ExhaustiveSearch.h"
#include "FluidInstances.h"
#include "RandomProblem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>

using namespace fsdp::schedule;

static constexpr double kRounding = 1e-9;

static double thorough(const Problem &problem, bool coarsen = true) {
  FluidOptions options;
  options.coarsen = coarsen;
  options.thorough = true;
  return fluidBound(problem, options).makespanNs;
}

/// Costs in small numbers, of lanes that slow each other down.
static void addCosts(Random &random, Problem &problem) {
  problem.gatherCost = {double(random.integer(0, 6)), 1};
  problem.reduceCost = {double(random.integer(0, 6)), 1};
  static constexpr double kContention[] = {1, 1.25, 1.5, 2};
  problem.laneContention = kContention[random.integer(0, 3)];
  problem.computeContention = random.chance(0.4) ? 1.25 : 1;
}

/// Three reductions, each of which has to end soon after the next one is ready, and uses anywhere,
/// most of one size.
static Problem makeStages(uint64_t seed) {
  Random random(seed);
  Problem problem;
  auto add = [&](int64_t durationNs) {
    problem.operations.push_back(
        {double(durationNs), random.chance(0.3) ? random.integer(0, 4) : 0});
    return uint32_t(problem.operations.size() - 1);
  };
  constexpr uint32_t kReductions = 3;
  int64_t inputBytes = random.integer(4, 10), sizeBytes = random.integer(3, 12);
  int64_t workNs = random.integer(4, 16);
  bool isOverlapped = random.chance(0.5);
  add(random.integer(0, 10));
  for (uint32_t k = 0; k < kReductions; ++k) {
    bool isEqual = random.chance(0.8);
    problem.reductions.push_back({0, add(workNs), 0, isEqual ? inputBytes : random.integer(1, 12)});
    if (k > 0)
      problem.reductions[k - 1].update = problem.reductions[k].ready + (isOverlapped ? 1 : 0);
    if (isOverlapped && k > 0)
      problem.operations[problem.reductions[k].ready].durationNs = double(random.integer(0, 2));
    if (isOverlapped)
      add(workNs);
  }
  problem.reductions.back().update = add(random.integer(0, 5));
  auto last = uint32_t(problem.operations.size() - 1);
  for (int64_t count = random.integer(1, 3); count > 0; --count) {
    auto at = uint32_t(random.integer(random.chance(0.5) ? 2 : 0, last));
    problem.groups.push_back(
        {std::to_string(count), random.chance(0.85) ? sizeBytes : random.integer(1, 12)});
    problem.uses.push_back({uint32_t(problem.groups.size() - 1), at, at});
  }
  std::stable_sort(problem.uses.begin(), problem.uses.end(),
                   [](const Use &a, const Use &b) { return a.first < b.first; });
  addCosts(random, problem);
  return problem;
}

/// Three reductions that fill the time of their stages nearly, or a little more than half, and
/// gathers most of which cannot begin before the first of them is ready. Some deadlines and uses
/// are out of line.
static Problem makeBusyStages(uint64_t seed) {
  Random random(seed);
  Problem problem;
  static constexpr double kContention[] = {1.25, 1.5, 2};
  const bool isHalf = random.chance(0.4);
  problem.laneContention = isHalf ? 2 : kContention[random.integer(0, 2)];
  problem.computeContention = random.chance(0.5) ? 1.05 : 1;
  int64_t workNs = random.integer(10, 40), latencyNs = random.integer(0, 6);
  int64_t fullNs = isHalf ? (workNs + random.integer(0, 8)) / 2 : workNs - random.integer(0, 6);
  int64_t inputBytes = std::max<int64_t>(1, fullNs - latencyNs);
  bool isOverlapped = random.chance(0.4), isOutOfLine = random.chance(0.4);
  problem.operations.push_back({double(random.integer(0, 9)), 0});
  for (uint32_t k = 0; k < 3; ++k) {
    problem.operations.push_back({double(workNs), 0});
    auto work = uint32_t(problem.operations.size() - 1);
    if (k > 0)
      problem.reductions[k - 1].update = work + isOverlapped;
    problem.reductions.push_back({0, work, 0, inputBytes, random.chance(0.8) ? 0 : inputBytes});
    if (isOverlapped && k > 0) { // it is ready a little before the deadline of the one before
      problem.operations[work].durationNs = double(random.integer(0, 2));
      problem.operations.push_back({double(workNs), 0});
    }
  }
  problem.operations.push_back({double(random.integer(0, 4)), 0});
  auto last = uint32_t(problem.operations.size() - 1);
  problem.reductions.back().update = last;
  if (isOutOfLine) {
    Reduction &reduction = problem.reductions[size_t(random.integer(0, 1))];
    reduction.update += uint32_t(random.integer(0, last - reduction.update));
  }
  int64_t sizeBytes = random.integer(2, workNs), gatherNs = random.integer(0, 8);
  if (isHalf) { // just so large that both fit beside the reductions if they are merged
    gatherNs = random.integer(workNs / 5, workNs / 2);
    sizeBytes = std::max<int64_t>(2, (3 * (workNs - inputBytes - latencyNs) - gatherNs) / 2 -
                                         random.integer(-1, 3));
  }
  auto count = uint32_t(random.integer(isHalf ? 2 : 1, 2));
  for (uint32_t i = 0; i < count; ++i) {
    problem.groups.push_back({std::to_string(i), isOutOfLine ? random.integer(2, 20) : sizeBytes});
    uint32_t at = i + 1 < count ? last - uint32_t(random.integer(0, isOutOfLine ? 3 : 1)) : last;
    problem.uses.push_back({i, at, at});
  }
  problem.gatherCost = {double(gatherNs), 1};
  problem.reduceCost = {double(latencyNs), 1};
  // No gather fits beside the first operation; the others have room for all.
  if (random.chance(0.75))
    problem.operations[0].liveBytes = 3 * inputBytes + 3 * sizeBytes;
  return problem;
}

/// Four to five uses, some of them second ones, nearly all of one size; sometimes a reduction.
static Problem makeUses(uint64_t seed) {
  Random random(seed);
  Problem problem;
  int64_t sizeBytes = random.integer(2, 8);
  auto numGroups = uint32_t(random.integer(2, 4)), numUses = uint32_t(random.integer(4, 5));
  for (uint32_t i = 0; i < numGroups; ++i)
    problem.groups.push_back({std::to_string(i),
                              random.chance(0.85) ? sizeBytes : random.integer(1, 8),
                              random.chance(0.85) ? KeepRule::Free : KeepRule::Never});
  for (uint32_t i = 0; i < numUses; ++i) {
    problem.operations.push_back({double(random.integer(0, 12)), random.integer(0, 3)});
    uint32_t group = i < numGroups ? i : 2 * numGroups - 1 - i; // as in forward and backward
    problem.uses.push_back({std::min(group, numGroups - 1), i, i});
  }
  problem.operations.push_back({double(random.integer(0, 5)), 0});
  if (random.chance(0.3))
    problem.reductions.push_back({0, numUses - 1, numUses, random.integer(1, 8)});
  addCosts(random, problem);
  return problem;
}

/// Compares with the best of all plans, and counts where the rows raise the bound.
static int expectBound(Problem problem) {
  int64_t minimum = problem.minimumPeak().bytes;
  std::vector<int64_t> caps{minimum, minimum + 4, minimum + 12};
  std::vector<double> optima = findOptima(problem, caps);
  int numRaised = 0;
  for (size_t i = 0; i < caps.size(); ++i) {
    SCOPED_TRACE("cap " + std::to_string(caps[i]));
    problem.memoryCapBytes = caps[i];
    double boundNs = thorough(problem), plainNs = fluid(problem).makespanNs;
    EXPECT_LE(boundNs, optima[i] * (1 + kRounding));
    EXPECT_LE(thorough(problem, /*coarsen=*/false), optima[i] * (1 + kRounding));
    EXPECT_LE(searchBound(problem, optima[i], 100).makespanNs, optima[i] * (1 + kRounding));
    EXPECT_LE(searchBound(problem, 1.1 * optima[i], 100, 1.05).makespanNs,
              optima[i] * (1 + kRounding));
    EXPECT_GE(boundNs, plainNs * (1 - 1e-6));
    numRaised += boundNs > plainNs * (1 + 1e-6);
  }
  return numRaised;
}

static void expectBounds(const std::function<Problem(uint64_t)> &make, uint64_t count) {
  int numRaised = 0;
  for (uint64_t seed = 0; seed < count && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    numRaised += expectBound(make(seed));
  }
  std::printf("rows for searches raise the bound of %d\n", numRaised);
  EXPECT_GT(numRaised, 20);
}

// The third gather cannot be launched beside the first operation, since the second one has the
// room; so its latency is not spent there. The last one is merged by a share, which no plan can do.
TEST(ThoroughBound, GathersWaitForThoseBeforeThem) {
  Problem problem = makeOperations(4); // each has a use, and room for one more copy
  for (uint32_t i = 0; i < 4; ++i) {
    problem.operations[i].durationNs = i == 0 ? 100 : 5;
    addUse(problem, 10, i);
  }
  problem.memoryCapBytes = 20;
  EXPECT_NEAR(fluid(problem).makespanNs, 20 + 100 + 10 + 10 + 5, kTolerance);
  EXPECT_NEAR(thorough(problem), 20 + 100 + 5 + 15 + 5 + 15 + 5 - 7.5, kTolerance);
  EXPECT_NEAR(searchBound(problem, 200, 100).makespanNs, 165, .001);
}

/// Reductions of the same size with a deadline behind each operation, and uses of some bytes.
static Problem makeReductions(std::vector<double> durationsNs, int64_t inputBytes,
                              CollectiveCost gatherCost, CollectiveCost reduceCost) {
  Problem problem;
  problem.gatherCost = gatherCost;
  problem.reduceCost = reduceCost;
  for (double durationNs : durationsNs)
    problem.operations.push_back({durationNs, 0, 0});
  for (uint32_t i = 1; i + 1 < durationsNs.size(); ++i)
    problem.reductions.push_back({0, i, i + 1, inputBytes, 0});
  return problem;
}

// Latencies of several gathers could be spent while there is no room for their bytes.
TEST(ThoroughBound, OneLatencyAtATime) {
  Problem problem = makeReductions({6, 5, 5, 5, 2}, 10, {6, 1}, {1, 1});
  problem.laneContention = 1.5;
  problem.memoryCapBytes = 10;
  addUse(problem, 4, 2);
  addUse(problem, 4, 4);
  addUse(problem, 5, 4);
  EXPECT_NEAR(fluid(problem).makespanNs, 59, kTolerance);
  EXPECT_NEAR(thorough(problem), 59.1923, .0001);
}

// Beside the second operation there is room for one copy. While it is there, kept or gathered again
// for the third one, the gather for the last one cannot spend its latency.
TEST(ThoroughBound, WhatHasBegunHoldsACopy) {
  Problem problem = makeOperations(4);
  problem.operations[2].durationNs = problem.operations[3].durationNs = 5;
  addUse(problem, 10, 0);
  problem.uses.push_back({0, 2, 2});
  addUse(problem, 10, 3);
  problem.operations[1].liveBytes = 5;
  problem.memoryCapBytes = 20;
  EXPECT_NEAR(fluid(problem).makespanNs, 20 + 100 + 100 + 5 + 5 + 5, kTolerance);
  EXPECT_NEAR(thorough(problem), 235 + 2.5, kTolerance);
  EXPECT_NEAR(findOptima(problem, {20})[0], 235 + 10, kTolerance);
}

// Two reductions in one bucket have to end by the first one's deadline, which computation waits
// for.
TEST(ThoroughBound, BucketsEndAsAWhole) {
  Problem problem = makeReductions({0, 4, 4, 4, 5}, 8, {5, 1}, {4, 1});
  problem.operations[1].liveBytes = 2;
  problem.memoryCapBytes = 22;
  addUse(problem, 10, 3);
  EXPECT_NEAR(fluid(problem).makespanNs, 37, kTolerance);
  EXPECT_NEAR(thorough(problem), 38.3333, .0001);
}

/// Stages of 100 ns with a reduction each, and behind them gathers that do not fit beside the
/// operation before the first one.
static Problem makeStagesOf(uint32_t count, int64_t reduceBytes, uint32_t numGathers,
                            int64_t gatherBytes) {
  Problem problem = makeOperations(count + 2);
  problem.gatherCost = problem.reduceCost = {0, 1};
  problem.laneContention = 2;
  problem.operations[0].liveBytes = 1000;
  problem.memoryCapBytes = 1000;
  for (uint32_t i = 0; i < numGathers; ++i)
    addUse(problem, gatherBytes, count + 1);
  for (uint32_t k = 0; k < count; ++k)
    problem.reductions.push_back({0, k + 1, k + 2, reduceBytes, 0});
  return problem;
}

// Each stage has 10 ns to spare, which 40 ns of a gather can use in two of them.
TEST(ThoroughBound, GathersUseTheSpareTimeOfFewStages) {
  Problem problem = makeStagesOf(4, 90, 1, 40);
  EXPECT_NEAR(fluid(problem).makespanNs, 600, kTolerance);
  EXPECT_NEAR(thorough(problem), 600 + 40 - 2 * 10, kTolerance);
}

// The next reduction is ready 5 ns before a deadline: by so much less is certain to be to spare.
TEST(ThoroughBound, ReductionsUseSpareTimeAsWell) {
  Problem problem = makeStagesOf(4, 90, 1, 40);
  problem.operations.assign(10, {95, 0, 0});
  problem.operations[0].liveBytes = 1000;
  for (uint32_t k = 0; k < 4; ++k) {
    problem.operations[2 * k + 2].durationNs = 5;
    problem.reductions[k].ready = k > 0 ? 2 * k : 1;
    problem.reductions[k].update = 2 * k + 3;
  }
  problem.uses[0].first = problem.uses[0].last = 9;
  EXPECT_NEAR(thorough(problem), 590 + 40 - 2 * 5 - 4 * (95 - 90), kTolerance);
  EXPECT_LE(thorough(problem), findOptima(problem, {1000})[0]);
}

// Merged, two gathers cover a stage, the reduction of which then takes 110 ns; apart, they take 25
// ns more than stages have to spare.
TEST(ThoroughBound, MergedGathersHoldUpReductions) {
  Problem problem = makeStagesOf(3, 55, 2, 50);
  problem.gatherCost.latencyNs = 30;
  EXPECT_NEAR(fluid(problem).makespanNs, 500, kTolerance);
  EXPECT_NEAR(thorough(problem), 500 + 6.25, kTolerance);
  problem.computeContention = 1.05;
  EXPECT_NEAR(thorough(problem), 516.42857, .0001);
}

// Behind four stages computation waits 50 ns for a reduction that is ready at their end, and may as
// well do so there; that is not what merged gathers cost in the first three.
TEST(ThoroughBound, WaitsBehindStagesAreNotForGathers) {
  Problem problem = makeStagesOf(4, 55, 3, 60);
  problem.gatherCost.latencyNs = 10;
  problem.operations.push_back({100, 0, 0});
  problem.reductions.push_back({0, 5, 6, 150, 0});
  EXPECT_NEAR(fluid(problem).makespanNs, 760, kTolerance);
  EXPECT_NEAR(thorough(problem), 760.5882, .0001); // with the rows of all four 760.3846
}

TEST(ThoroughBound, HoldsWithStages) { expectBounds(makeStages, 150); }
TEST(ThoroughBound, HoldsWithBusyStages) { expectBounds(makeBusyStages, 400); }
TEST(ThoroughBound, HoldsWithUsesOfOneSize) { expectBounds(makeUses, 400); }
