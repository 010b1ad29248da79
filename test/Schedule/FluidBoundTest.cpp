//===- FluidBoundTest.cpp - The bounds of the linear program --------------===//

#include "FluidInstances.h"
#include "RandomProblem.h"
#include "fsdp/Schedule/Simulate.h"

#include <gtest/gtest.h>

using namespace fsdp::schedule;

TEST(FluidBound, NothingTakesNoTime) { EXPECT_EQ(fluid(Problem()).makespanNs, 0); }

// The second and the third gather go together behind the first operation, which nothing delays:
// 100 ns of latency and 250 of bytes against 400 of computation. No bucket spans the operation.
TEST(FluidBound, LaterGathersMergeAmongThemselves) {
  Problem problem = makeOperations(3);
  problem.operations = {{400, 0, 0}, {0, 0, 0}, {0, 0, 0}};
  problem.meshes[0].gatherCost = {100, 1};
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
  problem.meshes[0].reduceCost = {100, 1};
  problem.reductions = {{0, 1, 3, 50, 0}, {0, 2, 3, 200, 0}, {0, 3, 3, 50, 0}};
  EXPECT_NEAR(fluid(problem).makespanNs, 400 + 150, kTolerance);
}

// The first three gathers go together, and the last one beside operation 2, which hides it: it does
// not fit beside the third at operation 1.
TEST(FluidBound, GathersMergeUpToWhatFits) {
  Problem problem = makeOperations(4);
  problem.operations = {{0, 0, 0}, {0, 0, 0}, {400, 0, 0}, {0, 0, 0}};
  problem.meshes[0].gatherCost = {100, 1};
  for (int64_t sizeBytes : {10, 10, 50, 50})
    addUse(problem, sizeBytes, problem.uses.size());
  problem.memoryCapBytes = 10 + 99;
  EXPECT_NEAR(fluid(problem).makespanNs, 100 + 70 + 400, kTolerance);
  // No time to hide in: one bucket, where all fit.
  problem.operations[2].durationNs = 0;
  for (Group &group : problem.groups)
    group.gatheredBytes = 50;
  problem.memoryCapBytes = 200;
  EXPECT_NEAR(fluid(problem).makespanNs, 100 + 200, kTolerance);
}

// A group's copy for its second use cannot be gathered while the first is there, so that a later
// use may go ahead of it: with the other group's, beside operation 1. It is then there beside
// operation 2, with which the second use's copy does not fit.
TEST(FluidBound, LaterGathersMayGoAheadOfSecondUses) {
  Problem problem = makeOperations(5);
  problem.meshes[0].gatherCost = {100, 1};
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

// The same, backwards.
TEST(FluidBound, ReductionsMergeUpToWhatFits) {
  Problem problem = makeOperations(5);
  problem.operations = {{0, 0, 0}, {400, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}};
  problem.groups = {{"a", 0, KeepRule::Free}};
  problem.meshes[0].reduceCost = {100, 1};
  problem.reductions = {{0, 1, 4, 50, 0}, {0, 2, 4, 50, 0}, {0, 3, 4, 10, 0}, {0, 4, 4, 10, 0}};
  problem.memoryCapBytes = 99;
  EXPECT_NEAR(fluid(problem).makespanNs, 400 + 100 + 70, kTolerance);
  problem.memoryCapBytes.reset();
  problem.operations[1].durationNs = 0;
  EXPECT_NEAR(fluid(problem).makespanNs, 100 + 120, kTolerance);
}

// One bucket for all, ready at the start or at the end, pays one latency.
TEST(FluidBound, AllMayMerge) {
  Problem problem = makeOperations(9);
  for (Operation &operation : problem.operations)
    operation.durationNs = 0;
  problem.meshes[0].gatherCost = problem.meshes[0].reduceCost = {1000, 1};
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
  problem.meshes[0].gatherCost = {0, 1};
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
// others do. The quick bound sees how much is gathered again, the program also what.
TEST(FluidBound, CopiesShareMemory) {
  Problem problem = makeRounds(200);
  EXPECT_NEAR(quickBound(problem).makespanNs, 400, kTolerance);
  LowerBound bound = fluid(problem);
  EXPECT_NEAR(bound.makespanNs, 400, kTolerance);
  ASSERT_EQ(bound.kept.size(), 6);
  EXPECT_NEAR(bound.kept[3] + bound.kept[4] + bound.kept[5], 2, kTolerance);
  EXPECT_NEAR(bound.kept[4], 0, kTolerance);
}

// Room for 1.99 copies is room for one.
TEST(FluidBound, CopiesAreWhole) {
  EXPECT_NEAR(fluid(makeRounds(299)).makespanNs, 400, kTolerance);
  EXPECT_NEAR(fluid(makeRounds(300)).makespanNs, 300, kTolerance);
}

// A gather of chunks takes half the time of one from all ranks, but its copy takes all of its
// memory: two of four fit beside the long operation, and the others wait.
TEST(FluidBound, CopiesOfChunksAreWhole) {
  Problem problem = makeOperations(9);
  problem.meshes[0].gatherCost = {0, 1};
  for (uint32_t i = 0; i < 4; ++i) {
    problem.groups.push_back({std::to_string(i), 100, KeepRule::Never, {Chunk{2, 10, 0, {0, .5}}}});
    problem.uses.push_back({i, i, i});
    problem.operations[8 - i].durationNs = 10;
  }
  for (uint32_t i = 4; i-- > 0;)
    problem.uses.push_back({i, 8 - i, 8 - i});
  problem.operations[4].durationNs = 1000;
  const double computeNs = 100 + 4 * 100 + 1000 + 4 * 10;
  EXPECT_NEAR(fluid(problem).makespanNs, computeNs, kTolerance);
  for (uint32_t i = 4; i < 9; ++i)
    problem.operations[i].liveBytes = 760;
  problem.memoryCapBytes = 1000;
  // The third is launched where the second is used, the fourth where the third is.
  EXPECT_LE(fluid(problem).makespanNs, computeNs + 2 * 40);
  EXPECT_GT(fluid(problem).makespanNs, computeNs + 70);
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
  problem.meshes[0].gatherCost = {0, 1};
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

// Given up, it says no more than the quick bound.
TEST(FluidBound, MayBeGivenUp) {
  LowerBound bound = fluidBound(makeConflict(299), {.iterationLimit = 0});
  EXPECT_EQ(bound.makespanNs, quickBound(makeConflict(299)).makespanNs);
  EXPECT_TRUE(bound.kept.empty());
}

// With a cap below the minimum there is no plan to bound, and no program to solve.
TEST(FluidBound, NeedsNoPlan) {
  Problem problem = makeRounds(50);
  EXPECT_GE(fluid(problem).makespanNs, 300);
}
