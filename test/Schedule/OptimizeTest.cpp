//===- OptimizeTest.cpp - The search on instances with known answers ------===//

#include "fsdp/Schedule/Optimize.h"
#include "RandomProblem.h"
#include "fsdp/Schedule/Policies.h"

#include <gtest/gtest.h>

#include <thread>

using namespace fsdp::schedule;

namespace {

/// Operations of 100 ns without memory; collectives of 1 ns per byte without latency.
Problem makeProblem(size_t numOperations) {
  Problem problem;
  problem.operations.assign(numOperations, {100, 0, 0});
  problem.meshes[0].gatherCost = problem.meshes[0].reduceCost = {0, 1};
  return problem;
}

/// Group a is used first and last, group b in between; each has 50 bytes.
Problem makeSandwich() {
  Problem problem = makeProblem(4);
  problem.groups = {{"a", 50}, {"b", 50}};
  problem.uses = {{0, 0, 0}, {1, 1, 2}, {0, 3, 3}};
  return problem;
}

Outcome solve(const Problem &problem, const OptimizeOptions &options = {}) {
  EXPECT_EQ(problem.check(), std::nullopt);
  std::optional<Outcome> outcome = optimize(problem, options);
  if (!outcome) {
    ADD_FAILURE() << "no plan";
    return {};
  }
  EXPECT_EQ(verify(problem, outcome->plan), std::nullopt);
  EXPECT_DOUBLE_EQ(outcome->makespanNs, makespanNs(problem, outcome->plan));
  EXPECT_GE(outcome->ratio(), 1 - 1e-9);
  return *outcome;
}

} // namespace

// Only the first gather is exposed: b is gathered beside the first operation, a stays or is
// gathered again beside b's operations.
TEST(Optimize, HidesGathersWhereMemoryAllows) {
  Problem problem = makeSandwich();
  problem.memoryCapBytes = 100;
  EXPECT_DOUBLE_EQ(solve(problem).makespanNs, 450);
}

// With room for one copy and a chunk of a, which takes 2 ns to make: 10 ns of gathering instead
// of 50. Where the chunk does not fit a is gathered whole.
TEST(Optimize, KeepsChunksWhereCopiesDoNotFit) {
  Problem problem = makeSandwich();
  problem.groups[0].chunks = {{.ranks = 5, .bytes = 10, .copyNs = 2, .gatherCost = {0, .2}}};
  problem.memoryCapBytes = 99;
  Outcome outcome = solve(problem);
  EXPECT_EQ(outcome.plan.chunked, (std::vector<uint8_t>{0, 0, 1}));
  EXPECT_DOUBLE_EQ(outcome.makespanNs, 512);
  EXPECT_LE(outcome.ratio(), 1.001);
  problem.memoryCapBytes = 59;
  outcome = solve(problem);
  EXPECT_TRUE(outcome.plan.chunked.empty());
  EXPECT_DOUBLE_EQ(outcome.makespanNs, 550);
}

// With room for one copy nothing can be hidden: 400 ns of computation, three gathers of 50 ns.
TEST(Optimize, GathersAgainWhereNothingElseFits) {
  Problem problem = makeSandwich();
  problem.memoryCapBytes = 99;
  Outcome outcome = solve(problem);
  EXPECT_DOUBLE_EQ(outcome.makespanNs, 550);
  EXPECT_LE(peakOf(problem, outcome.plan).bytes, 99);
}

// What is kept need not be gathered again, which pays where the lane is the bottleneck: gathers of
// 300 ns, b's from 300 to 600, its operations until 800, then a's last.
TEST(Optimize, KeepsWhereTheLaneIsTheBottleneck) {
  Problem problem = makeSandwich();
  problem.meshes[0].gatherCost.nsPerByte = 6;
  problem.memoryCapBytes = 100;
  Outcome outcome = solve(problem);
  EXPECT_DOUBLE_EQ(outcome.makespanNs, 900);
  EXPECT_EQ(outcome.plan.kept, (std::vector<uint8_t>{0, 0, 1}));
}

// A reduction ends when the slowest rank has sent its part, later than it is simulated to:
// computation goes on up to the next launch, or as far as the peak stays where it is, here at
// operation 3.
TEST(Optimize, WaitsForReductionsAsLateAsThePeakAllows) {
  Problem problem = makeProblem(6);
  problem.groups = {{"a", 0}, {"b", 0}};
  problem.reductions = {{0, 1, 5, 50, 10}, {1, 4, 5, 50, 10}};
  auto waits = [&] {
    std::vector<uint32_t> waits;
    for (const ReductionBucket &bucket : solve(problem, {.maxBucketBytes = 0}).plan.reductions)
      waits.push_back(bucket.wait);
    return waits;
  };
  for (double computeContention : {1., 2.}) {
    problem.contention.setOfComputation(computeContention);
    problem.operations[3].liveBytes = 0;
    EXPECT_EQ(waits(), (std::vector<uint32_t>{4, 5}));
    problem.operations[3].liveBytes = 100;
    EXPECT_EQ(waits(), (std::vector<uint32_t>{3, 5}));
  }
}

// Two copies in one bucket pay the latency once: 100 + 20 for both, then both operations.
TEST(Optimize, MergesWhereLatencyDominates) {
  Problem problem = makeProblem(2);
  problem.operations = {{10, 0, 0}, {10, 0, 0}};
  problem.meshes[0].gatherCost = {100, 1};
  problem.groups = {{"a", 10}, {"b", 10}};
  problem.uses = {{0, 0, 0}, {1, 1, 1}};
  EXPECT_DOUBLE_EQ(solve(problem).makespanNs, 140);
  EXPECT_DOUBLE_EQ(solve(problem, {.maxBucketBytes = 0}).makespanNs, 230);
}

// Computation waits for a, which kernels gather without latency: 10 ns. It hides the gather of b:
// by kernels it would run at half its speed for 50 ns, by copy engines nothing is lost.
TEST(Optimize, ChoosesTheTransportOfEachGather) {
  Problem problem = makeProblem(3);
  problem.groups = {{"a", 10}, {"b", 50}};
  problem.uses = {{0, 0, 0}, {1, 1, 1}};
  problem.contention.setOfComputation(2);
  EXPECT_DOUBLE_EQ(solve(problem).makespanNs, 335);
  problem.meshes[0].copyEngineCost = {20, 1};
  Outcome both = solve(problem);
  EXPECT_DOUBLE_EQ(both.makespanNs, 310);
  EXPECT_EQ(both.plan.gathers, (std::vector<GatherBucket>{{{0}, 0, false}, {{1}, 0, true}}));
  problem.meshes[0].copyEngineOnly = true;
  EXPECT_DOUBLE_EQ(solve(problem).makespanNs, 330);
}

// The same for gradients: 20 ns until both are ready, 100 + 20 for both, then the updates.
TEST(Optimize, MergesReductionsWhereLatencyDominates) {
  Problem problem = makeProblem(4);
  for (Operation &operation : problem.operations)
    operation.durationNs = 10;
  problem.meshes[0].reduceCost = {100, 1};
  problem.groups = {{"a", 10}, {"b", 10}};
  problem.reductions = {{0, 1, 2, 10, 5}, {1, 2, 3, 10, 5}};
  EXPECT_DOUBLE_EQ(solve(problem).makespanNs, 160);
  EXPECT_DOUBLE_EQ(solve(problem, {.maxBucketBytes = 0}).makespanNs, 240);
}

// A group that must stay gathered stays, one that must not does not, whatever it costs.
TEST(Optimize, ObeysRulesOfGroups) {
  Problem problem = makeSandwich();
  problem.meshes[0].gatherCost.nsPerByte = 6;
  problem.groups[0].keep = KeepRule::Never;
  EXPECT_EQ(solve(problem).plan.kept, (std::vector<uint8_t>{0, 0, 0}));
  problem.meshes[0].gatherCost.nsPerByte = 1;
  problem.groups[0].keep = KeepRule::Always;
  EXPECT_EQ(solve(problem).plan.kept, (std::vector<uint8_t>{0, 0, 1}));
}

TEST(Optimize, RefusesACapBelowTheMinimum) {
  Problem problem = makeSandwich();
  EXPECT_EQ(problem.minimumPeak().bytes, 50);
  problem.memoryCapBytes = 49;
  EXPECT_FALSE(optimize(problem, {}));
  problem.memoryCapBytes = 50;
  EXPECT_TRUE(optimize(problem, {}));
}

TEST(Optimize, PlansStepsWithoutCollectives) {
  EXPECT_DOUBLE_EQ(solve(makeProblem(3)).makespanNs, 300);
  EXPECT_TRUE(optimize(Problem(), {}));
}

TEST(Optimize, SpendsNoMoreThanItsBudget) {
  Problem problem = makeSandwich();
  problem.memoryCapBytes = 99;
  // The policies are always tried.
  constexpr int64_t kPolicies = 10;
  Outcome outcome = solve(problem, {.simulationBudget = 20, .targetRatio = 0});
  EXPECT_LE(outcome.simulations, 20);
  EXPECT_LE(solve(problem, {.simulationBudget = 0}).simulations, kPolicies);
}

// A bound that the caller knows ends the search like its own, but is not reported as its own.
TEST(Optimize, EndsWhereAKnownBoundIsMet) {
  Problem problem = makeRandomProblem(1);
  problem.memoryCapBytes = problem.minimumPeak().bytes / 100 * 110;
  OptimizeOptions options{.simulationBudget = 500};
  Outcome whole = solve(problem, options);
  ASSERT_EQ(whole.simulations, 500);
  options.knownBoundNs = whole.makespanNs;
  Outcome outcome = solve(problem, options);
  EXPECT_LT(outcome.simulations, whole.simulations);
  EXPECT_LE(outcome.makespanNs, whole.makespanNs * options.targetRatio);
  EXPECT_LE(outcome.bound.makespanNs, whole.bound.makespanNs);
}

// The same plan whenever the same is asked, beside other searches in other threads as well; all
// that is random comes from the seed.
TEST(Optimize, IsDeterministic) {
  constexpr size_t kNumProblems = 10;
  auto solveSeed = [](uint64_t seed) {
    Problem problem = makeRandomProblem(seed);
    problem.memoryCapBytes = problem.minimumPeak().bytes / 100 * 110;
    return solve(problem, {.seed = seed, .simulationBudget = 500, .targetRatio = 0});
  };
  std::vector<Outcome> firsts, seconds(kNumProblems);
  for (uint64_t seed = 0; seed < kNumProblems; ++seed)
    firsts.push_back(solveSeed(seed));
  std::vector<std::thread> threads;
  for (uint64_t seed = 0; seed < kNumProblems; ++seed)
    threads.emplace_back([&, seed] { seconds[seed] = solveSeed(seed); });
  for (std::thread &thread : threads)
    thread.join();
  for (size_t i = 0; i < kNumProblems; ++i) {
    const Outcome &first = firsts[i], &second = seconds[i];
    EXPECT_EQ(first.plan, second.plan);
    EXPECT_EQ(first.simulations, second.simulations);
    EXPECT_EQ(first.makespanNs, second.makespanNs);
    EXPECT_EQ(first.bound.makespanNs, second.bound.makespanNs);
  }
}

// On one lane the reduction is ready at 100, but the gather that operation 3 needs has no room
// until position 2, at 110. The gather goes first, until 210, the reduction beside operation 3:
// 310. The other way round the gather ends at 300 and operation 3 at 400.
TEST(Optimize, PutsAReductionOffBehindAGather) {
  Problem problem = makeProblem(5);
  problem.oneLane = true;
  problem.operations = {{100, 150, 0}, {10, 60, 0}, {0, 0, 0}, {100, 0, 0}, {0, 0, 0}};
  problem.groups = {{"a", 0}, {"b", 100}};
  problem.uses = {{1, 3, 3}};
  problem.reductions = {{0, 1, 4, 100, 0}};
  problem.memoryCapBytes = 200;
  EXPECT_DOUBLE_EQ(solve(problem).makespanNs, 310);
}

// Never worse than what anybody else would do with the same problem.
TEST(Optimize, IsNotWorseThanAnyPolicy) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Problem problem = makeRandomProblem(seed);
    int64_t least = problem.minimumPeak().bytes;
    problem.memoryCapBytes = least + least / 10 * int64_t(seed % 5);
    Outcome outcome = solve(problem, {.simulationBudget = 100});
    EXPECT_LE(peakOf(problem, outcome.plan).bytes, *problem.memoryCapBytes);
    for (Policy policy : {Policy::Fsdp2, Policy::Asap})
      if (std::optional<Plan> plan = planByPolicy(problem, policy)) {
        EXPECT_LE(outcome.makespanNs, makespanNs(problem, *plan)) << getName(policy);
      }
  }
}

// The work is the budget's, however long the step is.
TEST(Optimize, TakesNoMoreSimulationsForLongerSteps) {
  constexpr int64_t kBudget = 200, kPolicies = 10, kRobust = 5;
  for (uint32_t groups : {4u, 16u, 64u}) {
    Problem problem = makeProblem(2 * groups);
    problem.meshes[0].gatherCost = problem.meshes[0].reduceCost = {60, 2};
    for (uint32_t i = 0; i < groups; ++i)
      problem.groups.push_back({std::to_string(i), 50});
    for (uint32_t i = 0; i < 2 * groups; ++i)
      problem.uses.push_back({i < groups ? i : 2 * groups - 1 - i, i, i});
    for (uint32_t i = groups; i < 2 * groups; ++i)
      problem.reductions.push_back(
          {2 * groups - 1 - i, i + 1 < 2 * groups ? i + 1 : i, 2 * groups - 1, 50, 25});
    problem.memoryCapBytes = problem.minimumPeak().bytes + 200;
    Outcome outcome = solve(problem, {.simulationBudget = kBudget,
                                      .jitter = Jitter{.computeSpread = .1, .networkSpread = .1}});
    EXPECT_LE(outcome.simulations,
              kBudget * (1 + OptimizeOptions::kSecondSearch) + kPolicies + kRobust)
        << groups;
  }
}

// A search that ends far from the bound is followed by a second; one that ends near it is not.
TEST(Optimize, SearchesAgainFarFromTheBound) {
  constexpr int64_t kBudget = 100;
  int numSecond = 0, numEnded = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Problem problem = makeRandomProblem(seed);
    problem.memoryCapBytes = problem.minimumPeak().bytes / 100 * 110;
    Outcome outcome = solve(problem, {.simulationBudget = kBudget, .targetRatio = 0});
    numSecond += outcome.simulations > kBudget;
    numEnded += outcome.simulations <= kBudget;
    if (outcome.ratio() > OptimizeOptions::kFarFromBound) {
      EXPECT_GT(outcome.simulations, kBudget * OptimizeOptions::kSecondSearch);
    }
  }
  EXPECT_GT(numSecond, 0);
  EXPECT_GT(numEnded, 0);
}

// Latency dominates, so that everything would go together; under a limit of two groups' bytes
// no launch moves more, and a group that is larger than the limit goes alone.
TEST(Optimize, KeepsBucketsBelowTheLimit) {
  Problem problem = makeProblem(12);
  problem.meshes[0].gatherCost = problem.meshes[0].reduceCost = {1000, 0.01};
  for (uint32_t i = 0; i < 6; ++i) {
    problem.groups.push_back({std::to_string(i), i == 3 ? 250 : 50});
    problem.uses.push_back({i, i, i});
    problem.reductions.push_back({i, 6 + i, 11, i == 3 ? 250 : 50, 10});
  }
  auto largestOf = [&](const Plan &plan, bool alone) {
    int64_t largest = 0;
    for (const GatherBucket &bucket : plan.gathers)
      if ((bucket.uses.size() == 1) == alone) {
        int64_t bytes = 0;
        for (uint32_t use : bucket.uses)
          bytes += problem.groups[problem.uses[use].group].gatheredBytes;
        largest = std::max(largest, bytes);
      }
    for (const ReductionBucket &bucket : plan.reductions)
      if ((bucket.reductions.size() == 1) == alone) {
        int64_t bytes = 0;
        for (uint32_t member : bucket.reductions)
          bytes += problem.reductions[member].inputBytes;
        largest = std::max(largest, bytes);
      }
    return largest;
  };
  Outcome free = solve(problem, {.simulationBudget = 500});
  EXPECT_GT(largestOf(free.plan, false), 100);
  Outcome limited = solve(problem, {.simulationBudget = 500, .maxBucketBytes = 100});
  EXPECT_EQ(largestOf(limited.plan, false), 100);
  EXPECT_EQ(largestOf(limited.plan, true), 250);
  EXPECT_GT(limited.makespanNs, free.makespanNs);
}

// Both plans take 500 ns: a is kept, or gathered again in the shade of b's operations, which a slow
// moment of the network may not be long enough for.
TEST(Optimize, PrefersWhatIsBetterUnderJitter) {
  Problem problem = makeSandwich();
  problem.meshes[0].gatherCost.nsPerByte = 2;
  problem.memoryCapBytes = 100;
  Jitter jitter{.computeSpread = 0, .networkSpread = .6, .samples = 200, .seed = 1};
  Outcome plain = solve(problem), robust = solve(problem, {.jitter = jitter});
  EXPECT_DOUBLE_EQ(plain.makespanNs, robust.makespanNs);
  EXPECT_EQ(robust.plan.kept, (std::vector<uint8_t>{0, 0, 1}));
  EXPECT_LE(simulate(problem, robust.plan, jitter).percentile95Ns,
            simulate(problem, plain.plan, jitter).percentile95Ns);
}
