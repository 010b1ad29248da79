//===- LocalSearchTest.cpp - Random moves, and annealing over them --------===//

#include "Search/LocalSearch.h"
#include "RandomProblem.h"
#include "Search/Evaluator.h"
#include "fsdp/Schedule/Policies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

using namespace fsdp::schedule;

/// Operations of 100 ns.
static Problem makeProblem(size_t numOperations) {
  Problem problem;
  problem.operations.assign(numOperations, {100, 0, 0});
  problem.memoryCapBytes = 1000;
  return problem;
}

// One gather of 1,000 ns for operation 39, launched at 10. Gates at multiples of its duration
// before its use are 0, 19, 24 and so on; those at 11 to 18 and at 2 to 9 come from the launch.
TEST(RandomMove, GatesGathersNearTheirLaunch) {
  Problem problem = makeProblem(40);
  problem.meshes[0].gatherCost = {0, 10};
  problem.groups = {{"a", 100}};
  problem.uses = {{0, 39, 39}};
  SearchSpace space(problem);
  Decisions start;
  start.kept = {0};
  start.gathers = {{{0}, 0}};
  auto collectGates = [&](std::vector<uint32_t> launches) {
    std::set<uint32_t> gates;
    Draws draws(1);
    for (int i = 0; i < 5000; ++i) {
      Decisions next = start;
      if (RandomMove(space, launches, draws, next).make())
        gates.insert(next.gathers.front().gate);
    }
    return gates;
  };
  std::set<uint32_t> near = collectGates({10}), blind = collectGates({});
  for (uint32_t distance = 1; distance <= 8; ++distance) {
    EXPECT_TRUE(near.contains(10 + distance)) << distance;
    EXPECT_TRUE(near.contains(10 - distance)) << distance;
    EXPECT_FALSE(blind.contains(10 + distance)) << distance;
  }
  EXPECT_LE(*near.rbegin(), 39u);
  // Not behind its use, however late it is launched.
  EXPECT_EQ(*collectGates({38}).rbegin(), 39u);
}

// Whatever is changed, each use is kept or gathered, and each reduction done, exactly once.
TEST(RandomMove, LeavesDecisionsComplete) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Problem problem = makeRandomProblem(seed);
    problem.memoryCapBytes = problem.minimumPeak().bytes / 10 * 12;
    SearchSpace space(problem);
    Decisions decisions = decideByPolicy(problem, Policy::Asap);
    std::vector<uint32_t> launches(problem.uses.size());
    for (uint32_t use = 0; use < problem.uses.size(); ++use)
      launches[use] = problem.uses[use].first;
    Draws draws(seed);
    for (int i = 0; i < 500; ++i) {
      RandomMove(space, launches, draws, decisions).make();
      std::vector<int> served(decisions.kept.begin(), decisions.kept.end());
      for (const Decisions::Gathers &bucket : decisions.gathers)
        for (uint32_t use : bucket.uses)
          ++served[use];
      std::vector<int> reduced(problem.reductions.size());
      for (const std::vector<uint32_t> &bucket : decisions.reductions)
        for (uint32_t reduction : bucket)
          ++reduced[reduction];
      ASSERT_EQ(served, std::vector<int>(problem.uses.size(), 1));
      ASSERT_EQ(reduced, std::vector<int>(problem.reductions.size(), 1));
    }
  }
}

// Of losses up to 1,000 ns a fifth is accepted at first, whatever the temperature was, and none at
// the end; small ones more often than large ones.
TEST(Annealing, AcceptsAShareOfLosses) {
  for (double firstTemperatureNs : {1., 1e6}) {
    Annealing annealing(firstTemperatureNs, .2);
    Draws draws(1);
    int small = 0, large = 0;
    auto countAccepted = [&](double progress) {
      small = large = 0;
      for (int i = 0; i < 20'000; ++i) {
        double lossNs = 1000 * draws.fraction();
        if (annealing.accepts(lossNs, progress, draws))
          ++(lossNs < 500 ? small : large);
      }
      return small + large;
    };
    countAccepted(0);
    EXPECT_NEAR(countAccepted(0), 4000, 200);
    EXPECT_GT(small, 4 * large);
    EXPECT_NEAR(countAccepted(.5), 1000, 200);
    countAccepted(1);
    EXPECT_LT(countAccepted(1), 20);
    EXPECT_TRUE(annealing.accepts(0, 1, draws));
    EXPECT_TRUE(annealing.accepts(-1, 1, draws));
    EXPECT_FALSE(annealing.accepts(std::numeric_limits<double>::infinity(), 0, draws));
  }
}

// What the search keeps is a list schedule's makespan, and never worse than where it began; no more
// simulations than there are, however few decisions there are to try.
TEST(LocalSearch, ImprovesWithinItsBudget) {
  double sum = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Problem problem = makeRandomProblem(seed);
    problem.memoryCapBytes = problem.minimumPeak().bytes / 20 * 21;
    OptimizeOptions options{.simulationBudget = 300, .targetRatio = 0};
    Evaluator evaluator(problem, options);
    double firstNs = evaluator.evaluate(decideByPolicy(problem, Policy::Asap));
    searchLocally(SearchSpace(problem), seed, evaluator.bestDecisions(), evaluator);
    EXPECT_LE(evaluator.numSimulations(), 300);
    EXPECT_LE(evaluator.best().makespanNs, firstNs);
    EXPECT_DOUBLE_EQ(makespanNs(problem, evaluator.best().plan), evaluator.best().makespanNs);
    sum += evaluator.best().makespanNs / firstNs;
  }
  // 9.78; 9.87 if each step is from where the search began.
  EXPECT_LT(sum, 9.82);
}
