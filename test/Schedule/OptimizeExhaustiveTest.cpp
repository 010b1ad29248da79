//===- OptimizeExhaustiveTest.cpp - The search against all plans ----------===//

#include "ExhaustiveSearch.h"
#include "RandomProblem.h"
#include "fsdp/Schedule/Optimize.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace fsdp::schedule;

static constexpr uint64_t kNumProblems = 150;

// Never better than the best of all plans, nearly always as good, and between bound and optimum
// there is what the bound lacks. With replicas a little less often.
TEST(OptimizeExhaustive, FindsTheBestPlanOfTinyProblems) {
  struct {
    double logarithms = 0;
    int numCases = 0, numOptimal = 0;
    double geomean() const { return std::exp(logarithms / numCases); }
  } plain, replicated;
  for (uint64_t seed = 0; seed < kNumProblems; ++seed) {
    Problem problem = makeTinyProblem(seed);
    int64_t minimum = problem.minimumPeak().bytes;
    std::vector<int64_t> caps = {minimum, minimum * 6 / 5, minimum * 2};
    std::vector<double> optima = findOptima(problem, caps);
    for (size_t i = 0; i < caps.size(); ++i) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", cap " + std::to_string(caps[i]));
      problem.memoryCapBytes = caps[i];
      std::optional<Outcome> outcome = optimize(problem, {.targetRatio = 1});
      ASSERT_TRUE(outcome);
      ASSERT_EQ(verify(problem, outcome->plan), std::nullopt);
      ASSERT_LE(peakOf(problem, outcome->plan).bytes, caps[i]);
      ASSERT_GE(outcome->makespanNs, optima[i] * (1 - 1e-12));
      ASSERT_LE(outcome->bound.makespanNs, optima[i] * (1 + 1e-9));
      auto &count = problem.hasReplicas() ? replicated : plain;
      count.logarithms += std::log(outcome->makespanNs / optima[i]);
      count.numOptimal += outcome->makespanNs <= optima[i] * (1 + 1e-12);
      ++count.numCases;
    }
  }
  EXPECT_LT(plain.geomean(), 1.0005);
  EXPECT_GT(plain.numOptimal, plain.numCases * 99 / 100);
  EXPECT_LT(replicated.geomean(), 1.005);
  EXPECT_GT(replicated.numOptimal, replicated.numCases * 90 / 100);
}
