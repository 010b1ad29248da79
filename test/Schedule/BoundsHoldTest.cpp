//===- BoundsHoldTest.cpp - No plan beats a bound -------------------------===//

#include "CaseBound.h"
#include "ExhaustiveSearch.h"
#include "Model/LiveBytes.h"
#include "RandomProblem.h"
#include "fsdp/Schedule/LowerBound.h"
#include "fsdp/Schedule/Policies.h"
#include "fsdp/Schedule/Simulate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

using namespace fsdp::schedule;

/// Rounding of sums of some hundred durations.
static constexpr double kRounding = 1e-9;

namespace {

struct Bounds {
  double quickNs, coarseNs, fullNs, withoutLatencyNs;
};

} // namespace

static void expectFractions(const std::vector<double> &values, size_t size) {
  EXPECT_EQ(values.size(), size);
  for (double value : values)
    EXPECT_TRUE(value >= 0 && value <= 1) << value;
}

static Bounds findBounds(const Problem &problem) {
  LowerBound quick = quickBound(problem);
  EXPECT_TRUE(quick.kind == BoundKind::Path || quick.kind == BoundKind::Lanes);
  FluidOptions full, withoutLatency;
  full.coarsen = false;
  withoutLatency.ignoreLatency = true;
  LowerBound coarse = fluidBound(problem, {});
  EXPECT_EQ(coarse.kind == BoundKind::Fluid, coarse.makespanNs > quick.makespanNs);
  expectFractions(coarse.kept, problem.uses.size());
  expectFractions(coarse.chunked, problem.uses.size());
  return {quick.makespanNs, coarse.makespanNs, fluidBound(problem, full).makespanNs,
          fluidBound(problem, withoutLatency).makespanNs};
}

/// What is cheaper or looks at less is no stronger.
static void expectOrdered(const Bounds &bounds) {
  constexpr double kSolver = 1e-6;
  EXPECT_LE(bounds.quickNs, bounds.withoutLatencyNs);
  EXPECT_LE(bounds.withoutLatencyNs, bounds.coarseNs * (1 + kSolver));
  EXPECT_LE(bounds.coarseNs, bounds.fullNs * (1 + kSolver));
}

/// Counts the problems on which cases of chunks raise the bound of the linear program.
class CaseBoundCheck {
public:
  void expectAtMost(const Problem &problem, double makespanNs) {
    for (bool coarsen : {true, false}) {
      const double boundNs = caseBound(problem, {.coarsen = coarsen}, 0);
      EXPECT_LE(boundNs, makespanNs * (1 + kRounding)) << coarsen;
      numRaised += boundNs > fluidBound(problem, {.coarsen = coarsen}).makespanNs * (1 + 1e-6);
    }
  }
  int numRaised = 0;
};

/// Of `numProblems` drawn problems; --gtest_random_seed=N takes those behind N times as many.
static uint64_t getFirstSeed(uint64_t numProblems) {
  return static_cast<uint64_t>(GTEST_FLAG_GET(random_seed)) * numProblems;
}

// The optimum over all plans, at the minimum peak and with more and more room.
TEST(BoundsHold, OnTinyProblems) {
  constexpr uint64_t kNumProblems = 300;
  const uint64_t first = getFirstSeed(kNumProblems);
  double sumOfLogs = 0;
  int count = 0, numMet = 0;
  CaseBoundCheck cases;
  for (uint64_t seed = first; seed < first + kNumProblems; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Problem problem = makeTinyProblem(seed);
    if (seed % 2)
      addUnevenCosts(seed, problem);
    int64_t minimum = problem.minimumPeak().bytes;
    std::vector<int64_t> caps{minimum, minimum + minimum / 10, minimum + minimum / 2};
    std::vector<double> optima = findOptima(problem, caps);
    for (size_t i = 0; i < caps.size(); ++i) {
      SCOPED_TRACE("cap " + std::to_string(caps[i]));
      problem.memoryCapBytes = caps[i];
      Bounds bounds = findBounds(problem);
      EXPECT_LE(bounds.fullNs, optima[i] * (1 + kRounding));
      expectOrdered(bounds);
      cases.expectAtMost(problem, optima[i]);
      if (optima[i] == 0)
        continue;
      ++count;
      numMet += bounds.fullNs >= optima[i] * (1 - 1e-6);
      sumOfLogs += std::log(optima[i] / bounds.fullNs);
    }
    if (HasFailure())
      return;
  }
  double geomean = std::exp(sumOfLogs / count);
  std::printf("fluid bound: met by the optimum on %d of %d, geomean of optimum / bound %.4f\n",
              numMet, count, geomean);
  // They are worth something.
  EXPECT_GT(numMet, count / 3);
  EXPECT_LT(geomean, 1.1);
}

// Where reductions are ready long before the next use, or wait for it.
TEST(BoundsHold, OnScatteredProblems) {
  constexpr uint64_t kNumProblems = 1500;
  const uint64_t first = getFirstSeed(kNumProblems);
  CaseBoundCheck cases;
  for (uint64_t seed = first; seed < first + kNumProblems && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Problem problem = makeScatteredProblem(seed);
    if (seed % 2)
      addUnevenCosts(seed, problem);
    int64_t minimum = problem.minimumPeak().bytes;
    std::vector<int64_t> caps{minimum, minimum + 3};
    std::vector<double> optima = findOptima(problem, caps);
    for (size_t i = 0; i < caps.size(); ++i) {
      SCOPED_TRACE("cap " + std::to_string(caps[i]));
      problem.memoryCapBytes = caps[i];
      EXPECT_LE(fluidBound(problem, {}).makespanNs, optima[i] * (1 + kRounding));
      EXPECT_LE(fluidBound(problem, {.coarsen = false}).makespanNs, optima[i] * (1 + kRounding));
      cases.expectAtMost(problem, optima[i]);
    }
  }
  EXPECT_GT(cases.numRaised, 10);
}

// Whole steps, where runs of operations are looked at as one.
TEST(BoundsHold, OnRandomSteps) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Problem problem = makeRandomProblem(seed, {.maxBlocks = 3});
    if (seed % 2)
      addUnevenCosts(seed, problem);
    int64_t minimum = problem.minimumPeak().bytes;
    Random random(seed);
    for (double factor : {1.0, 1.2}) {
      SCOPED_TRACE("cap " + std::to_string(factor));
      problem.memoryCapBytes = int64_t(double(minimum) * factor);
      double bestNs = HUGE_VAL;
      for (Policy policy : {Policy::Fsdp2, Policy::Asap})
        if (std::optional<Plan> plan = planByPolicy(problem, policy))
          bestNs = std::min(bestNs, makespanNs(problem, *plan));
      for (int i = 0; i < 200; ++i)
        if (ListScheduleResult result = listSchedule(problem, makeRandomDecisions(problem, random));
            result.plan)
          bestNs = std::min(bestNs, result.makespanNs);
      Bounds bounds = findBounds(problem);
      EXPECT_LE(bounds.fullNs, bestNs * (1 + kRounding));
      EXPECT_LE(caseBound(problem, {}, 0), bestNs * (1 + kRounding));
      expectOrdered(bounds);
    }
    if (HasFailure())
      return;
  }
}

/// The number of chunks that are live at the operation; nullopt if a copy is kept over it.
static std::optional<uint32_t> countChunks(const Problem &problem, const Plan &plan,
                                           uint32_t operation) {
  const std::vector<int32_t> previous = problem.previousUses();
  uint32_t count = 0;
  for (uint32_t use = 0; use < problem.uses.size(); ++use) {
    if (previous[use] < 0)
      continue;
    const uint32_t last = problem.uses[size_t(previous[use])].last, first = problem.uses[use].first;
    if (plan.kept[use] && last < operation && operation < first &&
        problem.groupOfUse(use).keep != KeepRule::Always)
      return std::nullopt;
    count += plan.isChunked(use) && !problem.chunkOf(use, plan.chunked[use]).isOnHost &&
             last <= operation && operation <= first;
  }
  return count;
}

// The lemma of CaseBound.h: a plan is a plan of the problem of its case. It takes as long there,
// and no more memory at any operation.
TEST(BoundsHold, PlansAreThoseOfTheirCases) {
  int numPlans = 0, numOfSeveral = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Problem problem = makeRandomProblem(seed);
    Random random(seed);
    problem.memoryCapBytes = problem.minimumPeak().bytes * 3 / 2;
    const ChunkCases cases(problem);
    for (int i = 0; i < 20 && !HasFailure(); ++i) {
      std::optional<Plan> plan = listSchedule(problem, makeRandomDecisions(problem, random)).plan;
      if (!plan || cases.mostChunks() == 0)
        continue;
      std::optional<uint32_t> count = countChunks(problem, *plan, cases.getOperation());
      if (!count)
        continue;
      std::optional<Problem> ofCase = cases.makeProblem(*count);
      ASSERT_TRUE(ofCase);
      EXPECT_EQ(verify(*ofCase, *plan), std::nullopt);
      EXPECT_EQ(makespanNs(*ofCase, *plan), makespanNs(problem, *plan));
      std::vector<Operation> operations = addChunks(problem, plan->chunked);
      std::vector<Operation> ofCaseOperations = addChunks(*ofCase, plan->chunked);
      for (size_t k = 0; k < operations.size(); ++k) {
        EXPECT_LE(ofCaseOperations[k].liveBytes, operations[k].liveBytes) << k;
        EXPECT_LE(ofCaseOperations[k].carriedBytes, operations[k].carriedBytes) << k;
      }
      ++numPlans;
      numOfSeveral += *count > 1;
    }
  }
  EXPECT_GT(numPlans, 200);
  EXPECT_GT(numOfSeveral, 50);
}

TEST(BoundsHold, AreTheSameEachTime) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    Problem problem = makeRandomProblem(seed);
    if (seed % 2)
      addUnevenCosts(seed, problem);
    problem.memoryCapBytes = problem.minimumPeak().bytes * 21 / 20;
    LowerBound first = fluidBound(problem, {}), second = fluidBound(problem, {});
    EXPECT_EQ(first.makespanNs, second.makespanNs);
    EXPECT_EQ(caseBound(problem, {}, 0), caseBound(problem, {}, 0));
    EXPECT_EQ(first.kept, second.kept);
    EXPECT_EQ(first.chunked, second.chunked);
  }
}
