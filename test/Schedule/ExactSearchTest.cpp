//===- ExactSearchTest.cpp - The best plan, against all plans -------------===//

#include "ExactSearch.h"
#include "ExhaustiveSearch.h"
#include "RandomProblem.h"
#include "fsdp/Schedule/Policies.h"
#include "fsdp/Schedule/Simulate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

using namespace fsdp::schedule;

static constexpr int64_t kEnough = 1'000'000;
static constexpr double kRounding = 1e-9;

static bool isSearchable(const Problem &problem) {
  return !problem.hasReplicas() && problem.meshes.size() == 1 &&
         !problem.meshes[0].copyEngineCost && (problem.oneLane || problem.contention.lanes == 1) &&
         std::none_of(problem.groups.begin(), problem.groups.end(),
                      [](const Group &group) { return !group.chunks.empty(); });
}

/// Operations with these many uses in a row, of few groups; and so many reductions.
static Problem makeProblem(Random &random, uint32_t numUses, uint32_t numReductions) {
  Problem problem;
  auto add = [&] {
    problem.operations.push_back({double(random.integer(0, 12)), random.integer(0, 6), 0});
    return uint32_t(problem.operations.size() - 1);
  };
  int64_t sizeBytes = random.integer(1, 6);
  for (int i = 0; i < 3; ++i)
    problem.groups.push_back({"g" + std::to_string(i),
                              random.chance(0.6) ? sizeBytes : random.integer(1, 6),
                              random.chance(0.8) ? KeepRule::Free : KeepRule::Never});
  for (uint32_t i = 0; i < numUses; ++i) {
    uint32_t at = add();
    problem.uses.push_back({uint32_t(random.integer(0, 2)), at, at});
  }
  for (uint32_t i = 0; i < numReductions; ++i) {
    uint32_t ready = add() + 1;
    int64_t inputBytes = random.integer(1, 6);
    problem.reductions.push_back({0, ready, 0, inputBytes, inputBytes / random.integer(1, 3)});
  }
  for (Reduction &reduction : problem.reductions)
    reduction.update = add();
  for (size_t i = 1; i < problem.operations.size(); ++i) {
    int64_t most = std::min(problem.operations[i - 1].liveBytes, problem.operations[i].liveBytes);
    problem.operations[i].carriedBytes = random.integer(0, most);
  }
  problem.meshes[0].gatherCost = {double(random.integer(0, 4)), double(random.integer(1, 3))};
  problem.meshes[0].reduceCost = {double(random.integer(0, 4)), double(random.integer(1, 3))};
  problem.oneLane = random.chance(0.3);
  problem.contention.setOfComputation(random.chance(0.4) ? 1.25 : 1);
  return problem;
}

static void expectBest(Problem problem) {
  int64_t minimum = problem.minimumPeak().bytes;
  std::vector<int64_t> caps = {minimum, minimum + 1, minimum + 3, minimum + 6, minimum + 10};
  std::vector<double> optima = findOptima(problem, caps);
  for (size_t i = 0; i < caps.size(); ++i) {
    SCOPED_TRACE("cap " + std::to_string(caps[i]));
    problem.memoryCapBytes = caps[i];
    for (double targetNs : {optima[i] * (1 + 1e-6) + 1e-6, HUGE_VAL}) {
      std::optional<ExactResult> result = searchExactly(problem, targetNs, kEnough);
      ASSERT_TRUE(result && result->isComplete && result->plan);
      ASSERT_EQ(verify(problem, *result->plan), std::nullopt);
      ASSERT_NEAR(result->boundNs, optima[i], kRounding * (1 + optima[i]));
    }
  }
}

// Several copies that could be kept or gathered early, of which not all fit.
TEST(ExactSearch, ChoosesAmongManyCopies) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    expectBest(makeProblem(random, uint32_t(random.integer(5, 6)), 0));
    if (HasFailure())
      return;
  }
}

// Three copies of 2 bytes stay for later. To gather the large group in time, two of them have to go
// at once, and the third while it is used, so that all come back in time: nothing waits but for the
// first gather.
TEST(ExactSearch, DropsCopiesTogether) {
  Problem problem;
  problem.groups = {{"a", 2}, {"b", 2}, {"c", 2}, {"d", 4}};
  for (uint32_t group : {0, 1, 2, 3, 0, 1, 2}) {
    auto at = uint32_t(problem.operations.size());
    problem.operations.push_back({10, 0, 0});
    problem.uses.push_back({group, at, at});
  }
  problem.meshes[0].gatherCost = {0, 1};
  problem.memoryCapBytes = 6;
  std::optional<ExactResult> result = searchExactly(problem, HUGE_VAL, kEnough);
  ASSERT_TRUE(result && result->isComplete && result->plan);
  EXPECT_EQ(verify(problem, *result->plan), std::nullopt);
  EXPECT_EQ(result->boundNs, 72);
  EXPECT_EQ(makespanNs(problem, *result->plan), 72);
}

// Several reductions in flight, and gathers beside them.
TEST(ExactSearch, ChoosesAmongManyReductions) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    expectBest(makeProblem(random, uint32_t(random.integer(1, 3)), 3));
    if (HasFailure())
      return;
  }
}

TEST(ExactSearch, ChoosesAmongGathersAndReductions) {
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    expectBest(makeProblem(random, uint32_t(random.integer(3, 5)), uint32_t(random.integer(1, 2))));
    if (HasFailure())
      return;
  }
}

TEST(ExactSearch, FindsTheBestOfAllPlans) {
  int numCases = 0;
  for (uint64_t seed = 0; seed < 3200; ++seed) {
    Problem problem = makeTinyProblem(seed);
    problem.meshes[0].copyEngineCost.reset();
    if (!isSearchable(problem)) {
      EXPECT_FALSE(searchExactly(problem, HUGE_VAL, kEnough));
      continue;
    }
    int64_t minimum = problem.minimumPeak().bytes;
    std::vector<int64_t> caps = {minimum, minimum + minimum / 10, minimum * 6 / 5, minimum * 2};
    std::vector<double> optima = findOptima(problem, caps);
    for (size_t i = 0; i < caps.size(); ++i) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", cap " + std::to_string(caps[i]));
      problem.memoryCapBytes = caps[i];
      std::optional<ExactResult> result = searchExactly(problem, HUGE_VAL, kEnough);
      ASSERT_TRUE(result && result->isComplete && result->plan);
      ASSERT_EQ(verify(problem, *result->plan), std::nullopt);
      ASSERT_NEAR(result->boundNs, optima[i], kRounding * optima[i]);
      ASSERT_NEAR(makespanNs(problem, *result->plan), optima[i], kRounding * optima[i]);
      // Bounds of partial plans do not cut off the best one.
      result = searchExactly(problem, optima[i] * (1 + 1e-6), kEnough);
      ASSERT_TRUE(result && result->isComplete && result->plan);
      ASSERT_NEAR(result->boundNs, optima[i], kRounding * optima[i]);
      ++numCases;
    }
  }
  EXPECT_GT(numCases, 3000);
}

// Nothing beats the optimum; what is left when the limit is reached bounds it.
TEST(ExactSearch, BoundsTheOptimumWhereItDoesNotEnd) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Problem problem = makeTinyProblem(seed);
    problem.meshes[0].copyEngineCost.reset();
    if (!isSearchable(problem))
      continue;
    problem.memoryCapBytes = problem.minimumPeak().bytes * 6 / 5;
    double optimum = findOptima(problem, {*problem.memoryCapBytes}).front();
    double targetNs = optimum * 1.1;
    for (int64_t limit : {0, 1, 3, 10, 30}) {
      std::optional<ExactResult> result = searchExactly(problem, targetNs, limit);
      ASSERT_TRUE(result);
      ASSERT_LE(result->boundNs, optimum * (1 + kRounding)) << "seed " << seed;
      ASSERT_TRUE(result->isComplete || !result->plan);
    }
    std::optional<ExactResult> none = searchExactly(problem, optimum, kEnough);
    ASSERT_TRUE(none && none->isComplete && !none->plan);
    ASSERT_EQ(none->boundNs, optimum);
  }
}

// Steps of a few blocks: no plan of a policy, and none by chance, is better.
TEST(ExactSearch, IsNotBeatenOnRandomSteps) {
  int numComplete = 0;
  for (uint64_t seed = 0; seed < 130; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Problem problem = makeRandomProblem(seed, {.maxBlocks = 2, .maxOperationsPerBlock = 2});
    problem.meshes[0].copyEngineCost.reset();
    if (!isSearchable(problem))
      continue;
    Random random(seed);
    int64_t minimum = problem.minimumPeak().bytes;
    for (double factor : {1.0, 1.05, 1.3}) {
      problem.memoryCapBytes = int64_t(double(minimum) * factor);
      double bestNs = HUGE_VAL;
      for (Policy policy : {Policy::Fsdp2, Policy::Asap})
        if (std::optional<Plan> plan = planByPolicy(problem, policy))
          bestNs = std::min(bestNs, makespanNs(problem, *plan));
      for (int i = 0; i < 500; ++i)
        if (ListScheduleResult result = listSchedule(problem, makeRandomDecisions(problem, random));
            result.plan)
          bestNs = std::min(bestNs, result.makespanNs);
      std::optional<ExactResult> result = searchExactly(problem, bestNs * (1 + kRounding), 200'000);
      ASSERT_TRUE(result);
      EXPECT_LE(result->boundNs, bestNs * (1 + kRounding));
      if (!result->isComplete)
        continue;
      ++numComplete;
      ASSERT_TRUE(result->plan);
      ASSERT_EQ(verify(problem, *result->plan), std::nullopt);
      EXPECT_NEAR(makespanNs(problem, *result->plan), result->boundNs, kRounding * result->boundNs);
    }
  }
  EXPECT_GT(numComplete, 60);
}
