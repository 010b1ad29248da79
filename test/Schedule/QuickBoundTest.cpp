//===- QuickBoundTest.cpp - Longest path and busy lanes -------------------===//

#include "fsdp/Schedule/LowerBound.h"

#include <gtest/gtest.h>

using namespace fsdp::schedule;

/// `count` groups of 100 bytes, each used by one operation of 50 ns, in order; a gather takes
/// 10 ns and 1 ns per byte.
static Problem makeChain(uint32_t count) {
  Problem problem;
  problem.operations.assign(count, {50, 10, 0});
  for (uint32_t i = 0; i < count; ++i) {
    problem.groups.push_back({std::to_string(i), 100, KeepRule::Free});
    problem.uses.push_back({i, i, i});
  }
  problem.meshes[0].gatherCost = {10, 1};
  problem.meshes[0].reduceCost = {20, 2};
  return problem;
}

TEST(QuickBound, NothingTakesNoTime) { EXPECT_EQ(quickBound(Problem()).makespanNs, 0); }

// Computation waits for the first gather; the others hide.
TEST(QuickBound, FirstGatherAndAllComputation) {
  Problem problem = makeChain(1);
  problem.operations.assign(4, {50, 10, 0});
  LowerBound bound = quickBound(problem);
  EXPECT_EQ(bound.makespanNs, 110 + 4 * 50);
  EXPECT_EQ(bound.kind, BoundKind::Path);
}

// Three gathers on one lane. All could be merged, so that only one latency is certain.
TEST(QuickBound, AllGathers) {
  LowerBound bound = quickBound(makeChain(3));
  EXPECT_EQ(bound.makespanNs, 10 + 3 * 100);
  EXPECT_EQ(bound.kind, BoundKind::Lanes);
}

// With room for one copy, each gather starts when the operation before it has ended, and none can
// be merged.
TEST(QuickBound, GathersWaitForMemory) {
  Problem problem = makeChain(3);
  problem.memoryCapBytes = 110;
  LowerBound bound = quickBound(problem);
  EXPECT_EQ(bound.makespanNs, 3 * (110 + 50));
  EXPECT_EQ(bound.kind, BoundKind::Path);
}

// An update comes behind its reduction and its way over replicas.
TEST(QuickBound, ReplicasFollowReductions) {
  Problem problem;
  problem.operations = {{100, 0, 0}, {0, 0, 0}};
  problem.groups = {{"a", 100}};
  problem.reductions = {{0, 1, 1, 100, 50}};
  problem.meshes[0].reduceCost = {0, 1};
  problem.meshes[0].acrossCost = {0, 4};
  EXPECT_EQ(quickBound(problem).makespanNs, 100 + 100 + 200);
  EXPECT_EQ(quickBound(problem).kind, BoundKind::Path);
}

// A copy that may stay is not gathered again; one that may not, or does not fit, is.
TEST(QuickBound, CountsOnlyGathersThatNoPlanAvoids) {
  Problem problem = makeChain(1);
  problem.operations = {{50, 10, 0}, {50, 60, 0}, {50, 10, 0}};
  problem.uses = {{0, 0, 0}, {0, 2, 2}};
  EXPECT_EQ(quickBound(problem).makespanNs, 110 + 150);
  problem.memoryCapBytes = 110;
  EXPECT_EQ(quickBound(problem).makespanNs, 110 + 100 + 110 + 50);
  problem.memoryCapBytes.reset();
  problem.groups[0].keep = KeepRule::Never;
  // The second gather is launched after operation 0, and operation 1 runs beside it.
  EXPECT_EQ(quickBound(problem).makespanNs, 110 + 50 + 110 + 50);
  problem.groups[0].keep = KeepRule::Always;
  EXPECT_EQ(quickBound(problem).makespanNs, 110 + 150);
}

// Each copy alone may stay beside every operation, but beside two of them there is room for one and
// a half of two: twice half a copy is gathered again, which slows computation down.
TEST(QuickBound, CopiesThatMayStayShareTheSlack) {
  Problem problem = makeChain(2);
  problem.operations.assign(8, {50, 10, 0});
  problem.uses = {{0, 0, 0}, {1, 1, 1}, {0, 3, 3}, {1, 4, 4}, {0, 6, 6}, {1, 7, 7}};
  problem.operations[2].liveBytes = problem.operations[5].liveBytes = 110;
  problem.contention.setOfComputation(2);
  double busyNs = 110 + 100;
  EXPECT_EQ(quickBound(problem).makespanNs, 110 + 8 * 50 + (busyNs - 110) / 2);
  problem.memoryCapBytes = 260;
  busyNs += 50 + 50;
  EXPECT_EQ(quickBound(problem).makespanNs, 110 + 8 * 50 + (busyNs - 110) / 2);
}

/// A gather of 110 ns, two operations of 50, gradients of 40 bytes ready after the first.
static Problem makeReduction() {
  Problem problem = makeChain(1);
  problem.operations.assign(3, {50, 110, 0});
  problem.reductions = {{0, 1, 2, 40, 10}};
  return problem;
}

TEST(QuickBound, ReductionBeforeItsUpdate) {
  EXPECT_EQ(quickBound(makeReduction()).makespanNs, 110 + 50 + (20 + 2 * 40) + 50);
}

// Beside operation 1 there is room for the shard but not for the input: the reduction is exposed.
TEST(QuickBound, ReductionBeforeItsMemoryIsNeeded) {
  Problem problem = makeReduction();
  problem.operations[1].liveBytes = 200;
  problem.memoryCapBytes = 239;
  EXPECT_EQ(quickBound(problem).makespanNs, 110 + 50 + 100 + 100);
  problem.memoryCapBytes = 250;
  EXPECT_EQ(quickBound(problem).makespanNs, 110 + 50 + 100 + 50);
}

// What computation must have waited for at a position has ended before gathers are launched there:
// the gather, for which there is no room earlier, follows the reduction.
TEST(QuickBound, GathersFollowReductionsThatMustHaveEnded) {
  Problem problem = makeChain(1);
  problem.operations = {{50, 200, 0}, {50, 110, 0}};
  problem.uses = {{0, 1, 1}};
  problem.reductions = {{0, 1, 1, 40, 10}};
  problem.memoryCapBytes = 290;
  EXPECT_EQ(quickBound(problem).makespanNs, 50 + 100 + 110 + 50);
  problem.memoryCapBytes = 300;
  EXPECT_EQ(quickBound(problem).makespanNs, 50 + 100 + 50);
}

/// Two gathers of 110 ns and two reductions of 100 ns within a step of little computation. One
/// reduction is ready at the start, so that nothing but the lanes holds it back.
static Problem makeBusyLanes() {
  Problem problem = makeChain(2);
  problem.operations.assign(3, {1, 10, 0});
  problem.uses = {{0, 0, 0}, {1, 2, 2}};
  problem.reductions = {{0, 0, 2, 40, 10}, {1, 0, 2, 40, 10}};
  return problem;
}

TEST(QuickBound, LanesRunBesideEachOther) {
  EXPECT_EQ(quickBound(makeBusyLanes()).makespanNs, 10 + 200);
}

TEST(QuickBound, OneLaneDoesOneThingAtATime) {
  Problem problem = makeBusyLanes();
  problem.oneLane = true;
  // One latency of each kind: both gathers and both reductions could be merged.
  EXPECT_EQ(quickBound(problem).makespanNs, (10 + 200) + (20 + 160));
}

TEST(QuickBound, BusyLanesSlowEachOther) {
  Problem problem = makeBusyLanes();
  problem.contention.lanes = 1.5;
  // Beside the latency of the gathers, half of what the time allows is reduced.
  EXPECT_EQ(quickBound(problem).makespanNs, (0.5 * 10 + 200) + 0.5 * 160);
}

// While a lane is busy, computation runs at 4/5 of its speed: 200 ns of computation behind the
// first gather, beside 500 ns of which it does 400.
TEST(QuickBound, BusyLanesSlowComputation) {
  Problem problem = makeChain(1);
  problem.operations.assign(2, {500, 10, 0});
  problem.contention.setOfComputation(1.25);
  problem.reductions = {{0, 1, 1, 40, 10}};
  problem.reductions[0].ready = 0;
  // Longest path: the gather, then both operations. The lanes are busy for at least 110 ns.
  EXPECT_EQ(quickBound(problem).makespanNs, 110 + 1000);
  problem.operations.assign(4, {500, 10, 0});
  problem.groups.push_back({"b", 190, KeepRule::Free});
  problem.uses = {{0, 0, 0}, {1, 2, 2}};
  problem.reductions.clear();
  // 10 + 290 ns of gathers: 110 exposed, 190 beside computation, which loses a fifth of them.
  EXPECT_EQ(quickBound(problem).makespanNs, 110 + 2000 + 190 / 5.0);
}
