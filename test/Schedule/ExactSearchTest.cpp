//===- ExactSearchTest.cpp - The best plan, against all plans -------------===//

#include "fsdp/Schedule/ExactSearch.h"
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
  return problem.oneLane || problem.laneContention == 1;
}

TEST(ExactSearch, FindsTheBestOfAllPlans) {
  int numCases = 0;
  for (uint64_t seed = 0; seed < 1200; ++seed) {
    Problem problem = makeTinyProblem(seed);
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
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Problem problem = makeRandomProblem(seed, {.maxBlocks = 2, .maxOperationsPerBlock = 2});
    if (!isSearchable(problem))
      continue;
    Random random(seed);
    int64_t minimum = problem.minimumPeak().bytes;
    for (double factor : {1.0, 1.05, 1.3}) {
      problem.memoryCapBytes = int64_t(double(minimum) * factor);
      double bestNs = HUGE_VAL;
      for (Policy policy : {Policy::Fsdp2, Policy::Asap, Policy::DeepCompile, Policy::Inductor})
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
