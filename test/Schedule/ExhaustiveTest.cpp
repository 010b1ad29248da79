//===- ExhaustiveTest.cpp - Against all plans of tiny problems ------------===//

#include "ExhaustiveSearch.h"
#include "RandomProblem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

using namespace fsdp::schedule;

static constexpr uint64_t kNumProblems = 150;

TEST(Exhaustive, EveryPlanIsValidAndNoneIsBelowTheMinimumPeak) {
  for (uint64_t seed = 0; seed < kNumProblems; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Problem problem = makeTinyProblem(seed);
    ASSERT_EQ(problem.check(), std::nullopt);
    int64_t leastBytes = INT64_MAX;
    forEachPlan(problem, [&](const Plan &plan) {
      ASSERT_EQ(verify(problem, plan), std::nullopt);
      leastBytes = std::min(leastBytes, peakOf(problem, plan).bytes);
    });
    ASSERT_EQ(problem.minimumPeak().bytes, leastBytes);
  }
}

// The list scheduler decides on positions alone; with the best of many decisions by chance it is
// rarely behind the best of all plans, and never before it.
TEST(Exhaustive, TheListSchedulerFindsTheBestPositions) {
  double logarithms = 0;
  int numCases = 0, numOptimal = 0;
  for (uint64_t seed = 0; seed < kNumProblems; ++seed) {
    Problem problem = makeTinyProblem(seed);
    int64_t minimum = problem.minimumPeak().bytes;
    std::vector<int64_t> caps = {minimum, minimum * 6 / 5, minimum * 2};
    std::vector<double> optima = findOptima(problem, caps);
    for (size_t i = 0; i < caps.size(); ++i) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", cap " + std::to_string(caps[i]));
      problem.memoryCapBytes = caps[i];
      Random random(seed);
      double best = INFINITY;
      for (int trial = 0; trial < 1500; ++trial) {
        ListScheduleResult result = listSchedule(problem, makeRandomDecisions(problem, random));
        if (result.plan)
          best = std::min(best, result.makespanNs);
      }
      ASSERT_TRUE(std::isfinite(optima[i]));
      ASSERT_GE(best, optima[i] * (1 - 1e-12));
      logarithms += std::log(best / optima[i]);
      numOptimal += best <= optima[i] * (1 + 1e-12);
      ++numCases;
    }
  }
  EXPECT_LT(std::exp(logarithms / numCases), 1.002);
  EXPECT_GT(numOptimal, numCases * 97 / 100);
}
