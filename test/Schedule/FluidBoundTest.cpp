//===- FluidBoundTest.cpp - The bounds of the linear program --------------===//

#include "fsdp/Schedule/LowerBound.h"
#include "fsdp/Schedule/Simulate.h"

#include <gtest/gtest.h>

using namespace fsdp::schedule;

static constexpr double kTolerance = 1e-6;

/// `count` operations of 100 ns; a gather takes 10 ns and 1 ns per byte, a reduction as long.
static Problem makeOperations(uint32_t count) {
  Problem problem;
  problem.operations.assign(count, {100, 0, 0});
  problem.gatherCost = problem.reduceCost = {10, 1};
  return problem;
}

static void addUse(Problem &problem, int64_t sizeBytes, uint32_t operation) {
  problem.uses.push_back({uint32_t(problem.groups.size()), operation, operation});
  problem.groups.push_back({std::to_string(operation), sizeBytes, KeepRule::Free});
}

static LowerBound fluid(const Problem &problem, bool coarsen = true, bool ignoreLatency = false) {
  FluidOptions options;
  options.coarsen = coarsen;
  options.ignoreLatency = ignoreLatency;
  return fluidBound(problem, options);
}

TEST(FluidBound, NothingTakesNoTime) { EXPECT_EQ(fluid(Problem()).makespanNs, 0); }

// The second and the third gather go together behind the first operation, which nothing delays:
// 100 ns of latency and 250 of bytes against 400 of computation. No bucket spans the operation.
TEST(FluidBound, LaterGathersMergeAmongThemselves) {
  Problem problem = makeOperations(3);
  problem.operations = {{400, 0, 0}, {0, 0, 0}, {0, 0, 0}};
  problem.gatherCost = {100, 1};
  addUse(problem, 50, 0);
  addUse(problem, 200, 1);
  addUse(problem, 50, 2);
  EXPECT_NEAR(fluid(problem).makespanNs, 150 + 400, kTolerance);
}

// The same, backwards.
TEST(FluidBound, EarlierReductionsMergeAmongThemselves) {
  Problem problem = makeOperations(4);
  problem.operations = {{0, 0, 0}, {0, 0, 0}, {400, 0, 0}, {0, 0, 0}};
  problem.groups = {{"a", 0, KeepRule::Free}};
  problem.reduceCost = {100, 1};
  problem.reductions = {{0, 1, 3, 50, 0}, {0, 2, 3, 200, 0}, {0, 3, 3, 50, 0}};
  EXPECT_NEAR(fluid(problem).makespanNs, 400 + 150, kTolerance);
}

// The first three gathers go together, and the last one beside operation 2, which hides it: it does
// not fit beside the third at operation 1.
TEST(FluidBound, GathersMergeUpToWhatFits) {
  Problem problem = makeOperations(4);
  problem.operations = {{0, 0, 0}, {0, 0, 0}, {400, 0, 0}, {0, 0, 0}};
  problem.gatherCost = {100, 1};
  for (int64_t sizeBytes : {10, 10, 50, 50})
    addUse(problem, sizeBytes, problem.uses.size());
  problem.memoryCapBytes = 10 + 99;
  EXPECT_NEAR(fluid(problem).makespanNs, 100 + 70 + 400, kTolerance);
  // No time to hide in: two buckets, or one where all fit.
  problem.operations[2].durationNs = 0;
  for (Group &group : problem.groups)
    group.gatheredBytes = 50;
  problem.memoryCapBytes = 199;
  EXPECT_NEAR(fluid(problem).makespanNs, 200 + 200, kTolerance);
  problem.memoryCapBytes = 200;
  EXPECT_NEAR(fluid(problem).makespanNs, 100 + 200, kTolerance);
}

// A group's copy for its second use cannot be gathered while the first is there, so that a later
// use may go ahead of it: with the other group's, beside operation 1. It is then there beside
// operation 2, with which the second use's copy does not fit.
TEST(FluidBound, LaterGathersMayGoAheadOfSecondUses) {
  Problem problem = makeOperations(5);
  problem.gatherCost = {100, 1};
  addUse(problem, 10, 0);
  problem.uses[0].last = 2;
  addUse(problem, 20, 2);
  problem.uses.push_back({0, 3, 3});
  addUse(problem, 10, 4);
  problem.groups[0].keep = KeepRule::Never;
  problem.operations = {{0, 90, 0}, {130, 60, 0}, {0, 60, 0}, {0, 0, 0}, {0, 0, 0}};
  problem.memoryCapBytes = 100;
  Plan plan{{0, 0, 0, 0}, {{{0}, 0}, {{1, 3}, 1}, {{2}, 3}}, {}, false};
  ASSERT_EQ(verify(problem, plan), std::nullopt);
  EXPECT_EQ(makespanNs(problem, plan), 110 + 130 + 110);
  EXPECT_NEAR(fluid(problem).makespanNs, 350, kTolerance);
}

// The same, backwards; and a bucket has to be there before the first of its updates.
TEST(FluidBound, ReductionsMergeUpToWhatFits) {
  Problem problem = makeOperations(5);
  problem.operations = {{0, 0, 0}, {400, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}};
  problem.groups = {{"a", 0, KeepRule::Free}};
  problem.reduceCost = {100, 1};
  problem.reductions = {{0, 1, 4, 50, 0}, {0, 2, 4, 50, 0}, {0, 3, 4, 10, 0}, {0, 4, 4, 10, 0}};
  problem.memoryCapBytes = 99;
  EXPECT_NEAR(fluid(problem).makespanNs, 400 + 100 + 70, kTolerance);
  problem.memoryCapBytes.reset();
  problem.operations[1].durationNs = 0;
  EXPECT_NEAR(fluid(problem).makespanNs, 100 + 120, kTolerance);
  problem.reductions[0].update = 3;
  EXPECT_NEAR(fluid(problem).makespanNs, 200 + 120, kTolerance);
}

// One bucket for all, ready at the start or at the end, pays one latency.
TEST(FluidBound, AllMayMerge) {
  Problem problem = makeOperations(9);
  for (Operation &operation : problem.operations)
    operation.durationNs = 0;
  problem.gatherCost = problem.reduceCost = {1000, 1};
  for (uint32_t i = 0; i < 8; ++i)
    addUse(problem, 10, i);
  EXPECT_NEAR(fluid(problem).makespanNs, 1000 + 80, kTolerance);
  problem.uses.clear();
  for (uint32_t i = 0; i < 8; ++i)
    problem.reductions.push_back({i, i + 1, 8, 10, 0});
  EXPECT_NEAR(fluid(problem).makespanNs, 1000 + 80, kTolerance);
}

/// Three groups of 100 bytes, each used twice, in turn, by operations that take no time: all that
/// counts is how often they are gathered. Each copy that stays saves 100 ns.
static Problem makeRounds(int64_t capBytes) {
  Problem problem = makeOperations(6);
  problem.gatherCost = {0, 1};
  for (uint32_t i = 0; i < 3; ++i)
    addUse(problem, 100, i);
  for (uint32_t i = 0; i < 3; ++i)
    problem.uses.push_back({i, i + 3, i + 3});
  for (Operation &operation : problem.operations)
    operation.durationNs = 0;
  problem.memoryCapBytes = capBytes;
  return problem;
}

// Beside a copy in use there is room for one more, so that the middle group cannot stay while the
// others do. Quick bounds see only that each of them could.
TEST(FluidBound, CopiesShareMemory) {
  Problem problem = makeRounds(200);
  EXPECT_NEAR(quickBound(problem).makespanNs, 300, kTolerance);
  LowerBound bound = fluid(problem);
  EXPECT_NEAR(bound.makespanNs, 400, kTolerance);
  EXPECT_EQ(bound.kind, BoundKind::Fluid);
  ASSERT_EQ(bound.kept.size(), 6);
  EXPECT_NEAR(bound.kept[3] + bound.kept[4] + bound.kept[5], 2, kTolerance);
  EXPECT_NEAR(bound.kept[4], 0, kTolerance);
}

// Room for 1.99 copies is room for one.
TEST(FluidBound, CopiesAreWhole) {
  EXPECT_NEAR(fluid(makeRounds(299)).makespanNs, 400, kTolerance);
  EXPECT_NEAR(fluid(makeRounds(300)).makespanNs, 300, kTolerance);
}

TEST(FluidBound, ObeysKeepRules) {
  Problem problem = makeRounds(1000);
  problem.groups[0].keep = KeepRule::Never;
  problem.groups[1].keep = KeepRule::Always;
  LowerBound bound = fluid(problem);
  EXPECT_NEAR(bound.makespanNs, 400, kTolerance);
  EXPECT_EQ(bound.kept[3], 0);
  EXPECT_EQ(bound.kept[4], 1);
}

/// Copies of 60, 100 and 60 bytes. The middle one meets the first beside operation 2 and the last
/// beside operation 5; both leave room for 130 bytes.
static Problem makeFractions() {
  Problem problem = makeOperations(8);
  problem.gatherCost = {0, 1};
  addUse(problem, 60, 0);
  addUse(problem, 100, 1);
  problem.uses.push_back({0, 3, 3});
  addUse(problem, 60, 4);
  problem.uses.push_back({1, 6, 6});
  problem.uses.push_back({2, 7, 7});
  for (Operation &operation : problem.operations)
    operation.durationNs = 0;
  problem.operations[2].liveBytes = problem.operations[5].liveBytes = 870;
  problem.memoryCapBytes = 1000;
  return problem;
}

// The best plan keeps the smaller ones; the linear program keeps a part of the larger one besides,
// of which there are several choices.
TEST(FluidBound, MayKeepFractions) {
  LowerBound bound = fluid(makeFractions());
  EXPECT_NEAR(bound.makespanNs, 440 - 60 - 40 - 60, kTolerance);
  EXPECT_GE(bound.kept[4], 0.4 - kTolerance);
  EXPECT_LE(bound.kept[4], 0.6 + kTolerance);
}

TEST(SearchBound, KeepsNoFractions) {
  LowerBound bound = searchBound(makeFractions(), 320, 1000);
  EXPECT_EQ(bound.kind, BoundKind::Search);
  EXPECT_LE(bound.makespanNs, 320);
  EXPECT_GE(bound.makespanNs, 320 * (1 - 2e-4));
  // What the linear program says of choices is still there, for rounding.
  EXPECT_EQ(bound.kept, fluid(makeFractions()).kept);
}

// Against a plan that is better than the best one nothing is proven beyond its makespan.
TEST(SearchBound, SearchesOnlyBelowThePlan) {
  EXPECT_LE(searchBound(makeFractions(), 300, 1000).makespanNs, 300);
  EXPECT_EQ(searchBound(makeFractions(), 280, 1000).kind, BoundKind::Fluid);
}

// The gather of the third operation runs beside the first two, which it slows by a fifth of its
// 110 ns. Its latency could be saved by gathering it with the first; that would cost more.
TEST(FluidBound, BusyLanesSlowComputation) {
  Problem problem = makeOperations(3);
  addUse(problem, 100, 0);
  addUse(problem, 100, 2);
  problem.computeContention = 1.25;
  EXPECT_NEAR(fluid(problem).makespanNs, 110 + 300 + 110 * 0.2, kTolerance);
  EXPECT_NEAR(fluid(problem, true, /*ignoreLatency=*/true).makespanNs, 110 + 300 + 100 * 0.2,
              kTolerance + 2);
}

/// After the first operation a gather of 100 ns and a reduction of 200 ns have to happen before the
/// last one, beside two operations of 100 ns that leave `slackBytes`.
static Problem makeConflict(int64_t slackBytes) {
  Problem problem = makeOperations(4);
  problem.gatherCost = problem.reduceCost = {0, 1};
  addUse(problem, 100, 0);
  addUse(problem, 100, 3);
  problem.reductions = {{0, 1, 3, 200, 0}};
  problem.operations = {{100, 1000, 0}, {100, 900, 900}, {100, 900, 900}, {100, 900, 900}};
  problem.memoryCapBytes = 900 + slackBytes;
  problem.operations[0].liveBytes += slackBytes - 250; // no room for the second copy
  return problem;
}

// Both fit beside the operations: nothing is exposed but the first gather.
TEST(FluidBound, LanesOverlapWhereMemoryAllows) {
  EXPECT_NEAR(fluid(makeConflict(300)).makespanNs, 100 + 400, kTolerance);
}

TEST(FluidBound, LanesTakeTurnsWhereMemoryIsShort) {
  EXPECT_NEAR(fluid(makeConflict(299)).makespanNs, 100 + 400 + 100, kTolerance);
}

// While computation waits for its gather at operation 2, which found no room earlier, the second
// reduction runs: there is room for both, since the first one ended long before.
TEST(FluidBound, LanesOverlapWhileComputationWaits) {
  Problem problem = makeOperations(4);
  problem.gatherCost = problem.reduceCost = {0, 1};
  problem.operations = {{100, 150, 0}, {1000, 150, 0}, {0, 0, 0}, {0, 0, 0}};
  addUse(problem, 150, 2);
  problem.reductions = {{0, 1, 3, 100, 0}, {0, 2, 3, 100, 0}};
  problem.memoryCapBytes = 250;
  EXPECT_NEAR(fluid(problem).makespanNs, 100 + 1000 + 150, kTolerance);
  // With less room, one after the other.
  problem.operations[2].carriedBytes = 1;
  problem.operations[2].liveBytes = 1;
  problem.memoryCapBytes = 250;
  EXPECT_NEAR(fluid(problem).makespanNs, 100 + 1000 + 150 + 100, kTolerance);
}

// The lanes overlap beside operation 2 alone, which has room for 300 bytes: the reduction ends with
// it and the gather begins with it. The operations around it have less.
TEST(FluidBound, LanesOverlapWithinARun) {
  Problem problem = makeOperations(5);
  problem.gatherCost = {0, 2};
  problem.reduceCost = {0, 1};
  problem.operations = {
      {100, 950, 0}, {100, 702, 700}, {100, 700, 700}, {100, 701, 700}, {100, 700, 700}};
  addUse(problem, 100, 4);
  problem.reductions = {{0, 1, 4, 200, 0}};
  problem.memoryCapBytes = 1000;
  EXPECT_NEAR(fluid(problem).makespanNs, 500, kTolerance);
  problem.memoryCapBytes = 999;
  EXPECT_NEAR(fluid(problem).makespanNs, 600, kTolerance);
}

/// Before its last operation a step gathers 100 bytes and reduces 200 to 150. Beside no operation
/// is room for both, nor for the reduction at work; only at position `roomy` is.
static Problem makeExposed(uint32_t ready, uint32_t roomy, double gatherNsPerByte) {
  Problem problem = makeOperations(6);
  problem.gatherCost = {0, gatherNsPerByte};
  problem.reduceCost = {0, 1};
  int64_t liveBytes[] = {950, ready == 1 ? 760 : 700, 700, 700, 701, 700};
  for (uint32_t i = 0; i < 6; ++i)
    problem.operations[i] = {100, liveBytes[i], i > 0 && i != roomy ? 700 : 0};
  addUse(problem, 100, 5);
  problem.reductions = {{0, ready, 5, 200, 150}};
  problem.memoryCapBytes = 1000;
  return problem;
}

/// Computation stands still for the reduction, and meanwhile the gather goes on.
static Plan planExposed(uint32_t gatherAt, uint32_t reduceAt) {
  Plan plan;
  plan.kept = {0};
  plan.gathers = {{{0}, gatherAt}};
  plan.reductions = {{{0}, reduceAt, reduceAt}};
  return plan;
}

// The wait may stand inside a run of operations that is looked at as one...
TEST(FluidBound, LanesOverlapWhileComputationWaitsWithinARun) {
  Problem problem = makeExposed(/*ready=*/1, /*roomy=*/3, 5);
  Plan plan = planExposed(2, 3);
  ASSERT_EQ(verify(problem, plan), std::nullopt);
  EXPECT_EQ(makespanNs(problem, plan), 800);
  EXPECT_NEAR(fluid(problem).makespanNs, 800, kTolerance);
  // Computation runs slower beside the gather, but not while it waits.
  problem.computeContention = 1.25;
  EXPECT_LE(fluid(problem).makespanNs, makespanNs(problem, plan) + kTolerance);
}

// ... or before its first one.
TEST(FluidBound, LanesOverlapWhileComputationWaitsBeforeARun) {
  Problem problem = makeExposed(/*ready=*/2, /*roomy=*/2, 6);
  Plan plan = planExposed(1, 2);
  ASSERT_EQ(verify(problem, plan), std::nullopt);
  EXPECT_EQ(makespanNs(problem, plan), 800);
  EXPECT_NEAR(fluid(problem).makespanNs, 800, kTolerance);
}

// Beside operation 1 there is room for the copy or for the gradients. Computation waits for the
// reduction of 100 ns there, rather than for the gather of 300 ns later.
TEST(FluidBound, ComputationMayWaitForMemory) {
  Problem problem = makeOperations(3);
  problem.gatherCost = {0, 3};
  problem.reduceCost = {0, 1};
  addUse(problem, 100, 2);
  problem.reductions = {{0, 1, 2, 100, 0}};
  problem.memoryCapBytes = 250;
  problem.operations[1].liveBytes = 100;
  EXPECT_NEAR(fluid(problem).makespanNs, 400, kTolerance);
}

// The second gather finds no room before operation 2, and the reduction must have ended there: it
// comes first. The lanes overlap no more than the program's order allows.
TEST(FluidBound, GathersFollowReductionsThatMustHaveEnded) {
  Problem problem = makeOperations(3);
  problem.gatherCost = problem.reduceCost = {0, 1};
  problem.operations[1].liveBytes = 151;
  addUse(problem, 100, 0);
  addUse(problem, 50, 2);
  problem.reductions = {{0, 2, 2, 60, 0}};
  problem.memoryCapBytes = 200;
  EXPECT_NEAR(fluid(problem).makespanNs, 100 + 200 + 60 + 50 + 100, kTolerance);
  problem.memoryCapBytes = 201; // now it may be launched before operation 1
  EXPECT_NEAR(fluid(problem).makespanNs, 100 + 200 + 60 + 100, kTolerance);
}

// A smaller gather behind them may be launched earlier, and need not follow the reduction.
TEST(FluidBound, SmallerGathersNeedNotFollowReductions) {
  Problem problem = makeOperations(4);
  problem.gatherCost = problem.reduceCost = {0, 1};
  problem.operations[1].liveBytes = 151;
  addUse(problem, 100, 0);
  addUse(problem, 50, 2);
  addUse(problem, 20, 3);
  problem.reductions = {{0, 2, 2, 60, 0}};
  problem.memoryCapBytes = 200;
  LowerBound bound = fluid(problem);
  EXPECT_EQ(bound.kept.size(), 3);
  // The lane may do a part of it while computation waits for the reduction, or all of it later.
  EXPECT_GE(bound.makespanNs, 100 + 200 + 60 + 200 - kTolerance);
  EXPECT_LE(bound.makespanNs, 100 + 200 + 60 + 50 + 200 + kTolerance);
}

// The gather waits until operation 1 is done or the reduction has ended, and then it is computation
// that waits: what was reduced beside operation 1 does not make the gather any shorter.
TEST(FluidBound, GathersAndReductionsTakeTurns) {
  Problem problem = makeOperations(4);
  problem.operations = {{100, 150, 0}, {10, 30, 0}, {10, 0, 0}, {100, 0, 0}};
  problem.gatherCost = problem.reduceCost = {10, 1};
  problem.laneContention = 2;
  addUse(problem, 90, 2);
  problem.reductions = {{0, 1, 3, 90, 0}};
  problem.memoryCapBytes = 209;
  EXPECT_NEAR(fluid(problem).makespanNs, 100 + 10 + 100 + 100 + 100, kTolerance);
  problem.memoryCapBytes = 210; // now they fit beside operation 1
  EXPECT_NEAR(fluid(problem).makespanNs, 100 + 100 + 100 + 100, kTolerance);
}

// Two times 200 ns over replicas: the first begins behind operation 0, the second follows it.
TEST(FluidBound, ReplicasTakeTheirTime) {
  Problem problem = makeOperations(4);
  problem.operations[2].durationNs = problem.operations[3].durationNs = 0;
  problem.reduceCost = {0, 0.001};
  problem.acrossCost = {0, 10};
  problem.groups = {{"a", 40}, {"b", 40}};
  problem.reductions = {{0, 1, 2, 40, 20}, {1, 2, 3, 40, 20}};
  EXPECT_NEAR(fluid(problem).makespanNs, 100 + 400, 0.1);
  problem.acrossCost.reset();
  EXPECT_NEAR(fluid(problem).makespanNs, 200, 0.1);
}

// Beside 400 ns over replicas a gather of 300 ns runs alone while operation 0 does, 100 ns; where
// they slow each other down to the half, the rest takes its own time.
TEST(FluidBound, ReplicasShareTheNetwork) {
  Problem problem = makeOperations(4);
  problem.operations[2].durationNs = problem.operations[3].durationNs = 0;
  problem.gatherCost = {0, 1};
  problem.reduceCost = {0, 0.001};
  problem.acrossCost = {0, 10};
  addUse(problem, 300, 3);
  problem.groups.insert(problem.groups.end(), {{"a", 40}, {"b", 40}});
  problem.reductions = {{1, 1, 2, 40, 20}, {2, 2, 3, 40, 20}};
  EXPECT_NEAR(fluid(problem).makespanNs, 100 + 400, 0.1);
  problem.acrossContention = 2;
  EXPECT_NEAR(fluid(problem).makespanNs, 300 + 400, 0.1);
  problem.acrossContention = 1.5;
  EXPECT_NEAR(fluid(problem).makespanNs, 100 + 400 + 200. / 2, 0.1);
}

// Behind operation 1 they fit: the gather is launched there, and beside operation 2.
TEST(FluidBound, GathersTakeTheirTurnAsSoonAsTheyFit) {
  Problem problem = makeOperations(5);
  problem.operations = {{100, 150, 0}, {10, 30, 0}, {20, 0, 0}, {30, 0, 0}, {100, 0, 0}};
  problem.gatherCost = problem.reduceCost = {10, 1};
  problem.laneContention = 2;
  addUse(problem, 90, 3);
  problem.reductions = {{0, 1, 4, 90, 0}};
  problem.memoryCapBytes = 209;
  EXPECT_NEAR(fluid(problem).makespanNs, 100 + 10 + 100 + 100 + 100, kTolerance);
}

// Nothing can be reduced beside an operation that leaves no room for the input, although there is
// room for it before: 200 ns of computation less to hide in.
TEST(FluidBound, ReductionsInFlightHoldTheirInput) {
  Problem problem = makeOperations(3);
  problem.reduceCost = {0, 1};
  problem.reductions = {{0, 1, 2, 100, 60}};
  problem.groups = {{"a", 0, KeepRule::Free}};
  problem.memoryCapBytes = 160; // input and shard
  EXPECT_NEAR(fluid(problem).makespanNs, 300, kTolerance);
  problem.memoryCapBytes = 159;
  EXPECT_NEAR(fluid(problem).makespanNs, 400, kTolerance);
}

// Given up, it says no more than the quick bound.
TEST(FluidBound, MayBeGivenUp) {
  for (bool boundOnly : {false, true}) {
    FluidOptions options{.boundOnly = boundOnly, .iterationLimit = 0};
    LowerBound bound = fluidBound(makeConflict(299), options);
    EXPECT_EQ(bound.makespanNs, quickBound(makeConflict(299)).makespanNs);
    EXPECT_TRUE(bound.kept.empty());
  }
}

// With a cap below the minimum there is no plan to bound, and no program to solve.
TEST(FluidBound, NeedsNoPlan) {
  Problem problem = makeRounds(50);
  EXPECT_GE(fluid(problem).makespanNs, 300);
  EXPECT_GE(searchBound(problem, 1000, 10).makespanNs, 300);
}
