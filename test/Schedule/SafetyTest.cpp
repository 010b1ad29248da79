//===- SafetyTest.cpp - No plan breaks the rules --------------------------===//

#include "RandomProblem.h"
#include "fsdp/Schedule/Policies.h"
#include "fsdp/Schedule/Simulate.h"

#include <gtest/gtest.h>

using namespace fsdp::schedule;

namespace {

constexpr Policy kPolicies[] = {Policy::Fsdp2, Policy::Asap};
constexpr double kCaps[] = {1.00, 1.02, 1.05, 1.2, 1.5};

/// Every problem has a seed, which names it in a failure.
constexpr uint64_t kNumProblems = 10'000;

} // namespace

/// A plan that a scheduler returned is accepted, fits, and takes the time that it said.
static void expectSafe(const Problem &problem, const Plan &plan, double makespan) {
  std::optional<std::string> wrong = verify(problem, plan);
  ASSERT_FALSE(wrong) << *wrong;
  ASSERT_LE(peakOf(problem, plan).bytes, *problem.memoryCapBytes);
  ASSERT_NEAR(makespanNs(problem, plan), makespan, 1e-9 * makespan);
}

TEST(Safety, ListSchedulesKeepTheCap) {
  int64_t numRandomPlans = 0;
  for (uint64_t seed = 0; seed < kNumProblems; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Problem problem = makeRandomProblem(seed);
    if (seed % 2)
      addUnevenCosts(seed, problem);
    std::optional<std::string> wrong = problem.check();
    ASSERT_FALSE(wrong) << *wrong;
    double computeNs = 0;
    for (const Operation &operation : problem.operations)
      computeNs += operation.durationNs;
    int64_t minimum = problem.minimumPeak().bytes;
    Random random(seed);
    for (double cap : kCaps) {
      SCOPED_TRACE("cap " + std::to_string(cap));
      problem.memoryCapBytes = int64_t(double(minimum) * cap);
      for (Policy policy : kPolicies) {
        SCOPED_TRACE(getName(policy));
        // Whatever a policy wants, at the minimum there is room for it.
        std::optional<Plan> plan = planByPolicy(problem, policy);
        ASSERT_TRUE(plan);
        double makespan = makespanNs(problem, *plan);
        expectSafe(problem, *plan, makespan);
        ASSERT_GE(makespan, computeNs * (1 - 1e-12));
      }
      ListScheduleResult result = listSchedule(problem, makeRandomDecisions(problem, random));
      if (result.plan) {
        ++numRandomPlans;
        expectSafe(problem, *result.plan, result.makespanNs);
      }
      if (HasFatalFailure())
        return;
    }
  }
  // Enough decisions by chance fit for the above to say something.
  EXPECT_GT(numRandomPlans, int64_t(kNumProblems));
}

TEST(Safety, NothingFitsBelowTheMinimum) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Problem problem = makeRandomProblem(seed);
    if (seed % 2)
      addUnevenCosts(seed, problem);
    problem.memoryCapBytes = problem.minimumPeak().bytes - 1;
    for (Policy policy : kPolicies)
      ASSERT_FALSE(planByPolicy(problem, policy)) << getName(policy);
  }
}
