//===- FluidLanesTest.cpp - Lanes beside each other in the linear program -===//

#include "FluidInstances.h"
#include "fsdp/Schedule/Simulate.h"

#include <gtest/gtest.h>

using namespace fsdp::schedule;

// The gather of the third operation runs beside the first two, which it slows by a fifth of its
// 110 ns. Its latency could be saved by gathering it with the first; that would cost more.
TEST(FluidLanes, BusyLanesSlowComputation) {
  Problem problem = makeOperations(3);
  addUse(problem, 100, 0);
  addUse(problem, 100, 2);
  problem.contention.setOfComputation(1.25);
  EXPECT_NEAR(fluid(problem).makespanNs, 110 + 300 + 110 * 0.2, kTolerance);
  EXPECT_NEAR(fluid(problem, true, /*ignoreLatency=*/true).makespanNs, 110 + 300 + 100 * 0.2,
              kTolerance + 2);
}

// Both fit beside the operations: nothing is exposed but the first gather.
TEST(FluidLanes, LanesOverlapWhereMemoryAllows) {
  EXPECT_NEAR(fluid(makeConflict(300)).makespanNs, 100 + 400, kTolerance);
}

// While computation waits for its gather at operation 2, which found no room earlier, the second
// reduction runs: there is room for both, since the first one ended long before.
TEST(FluidLanes, LanesOverlapWhileComputationWaits) {
  Problem problem = makeOperations(4);
  problem.meshes[0].gatherCost = problem.meshes[0].reduceCost = {0, 1};
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

/// Before its last operation a step gathers 100 bytes and reduces 200 to 150. Beside no operation
/// is room for both, nor for the reduction at work; only at position `roomy` is.
static Problem makeExposed(uint32_t ready, uint32_t roomy, double gatherNsPerByte) {
  Problem problem = makeOperations(6);
  problem.meshes[0].gatherCost = {0, gatherNsPerByte};
  problem.meshes[0].reduceCost = {0, 1};
  int64_t liveBytes[] = {950, ready == 1 ? 760 : 700, 700, 700, 701, 700};
  for (uint32_t i = 0; i < 6; ++i)
    problem.operations[i] = {100, liveBytes[i], i > 0 && i != roomy ? 700 : 0};
  addUse(problem, 100, 5);
  problem.reductions = {{0, ready, 5, 200, 150}};
  problem.memoryCapBytes = 1000;
  return problem;
}

/// A plan in which computation stands still for the reduction, and meanwhile the gather goes on. No
/// plan is faster.
static Plan expectExposed(const Problem &problem, uint32_t gatherAt, uint32_t reduceAt) {
  Plan plan;
  plan.kept = {0};
  plan.gathers = {{{0}, gatherAt}};
  plan.reductions = {{{0}, reduceAt, reduceAt}};
  EXPECT_EQ(verify(problem, plan), std::nullopt);
  EXPECT_EQ(makespanNs(problem, plan), 800);
  EXPECT_NEAR(fluid(problem).makespanNs, 800, kTolerance);
  return plan;
}

// The wait may stand inside a run of operations that is looked at as one...
TEST(FluidLanes, LanesOverlapWhileComputationWaitsWithinARun) {
  Problem problem = makeExposed(/*ready=*/1, /*roomy=*/3, 5);
  Plan plan = expectExposed(problem, 2, 3);
  // Computation runs slower beside the gather, but not while it waits.
  problem.contention.setOfComputation(1.25);
  EXPECT_LE(fluid(problem).makespanNs, makespanNs(problem, plan) + kTolerance);
}

// ... or before its first one.
TEST(FluidLanes, LanesOverlapWhileComputationWaitsBeforeARun) {
  expectExposed(makeExposed(/*ready=*/2, /*roomy=*/2, 6), 1, 2);
}

// Beside operation 1 there is room for the copy or for the gradients. Computation waits for the
// reduction of 100 ns there, rather than for the gather of 300 ns later.
TEST(FluidLanes, ComputationMayWaitForMemory) {
  Problem problem = makeOperations(3);
  problem.meshes[0].gatherCost = {0, 3};
  problem.meshes[0].reduceCost = {0, 1};
  addUse(problem, 100, 2);
  problem.reductions = {{0, 1, 2, 100, 0}};
  problem.memoryCapBytes = 250;
  problem.operations[1].liveBytes = 100;
  EXPECT_NEAR(fluid(problem).makespanNs, 400, kTolerance);
}

// The second gather finds no room before operation 2, and the reduction must have ended there: it
// comes first. The lanes overlap no more than the program's order allows.
TEST(FluidLanes, GathersFollowReductionsThatMustHaveEnded) {
  Problem problem = makeOperations(3);
  problem.meshes[0].gatherCost = problem.meshes[0].reduceCost = {0, 1};
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
TEST(FluidLanes, SmallerGathersNeedNotFollowReductions) {
  Problem problem = makeOperations(4);
  problem.meshes[0].gatherCost = problem.meshes[0].reduceCost = {0, 1};
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

/// Behind the first operation 90 bytes are reduced, and gathered for the last but one; a cap of 209
/// has no room for both beside operation 1.
static Problem makeTurns(const std::vector<Operation> &operations) {
  auto count = uint32_t(operations.size());
  Problem problem = makeOperations(count);
  problem.operations = operations;
  problem.contention.lanes = 2;
  addUse(problem, 90, count - 2);
  problem.reductions = {{0, 1, count - 1, 90, 0}};
  problem.memoryCapBytes = 209;
  return problem;
}

// The gather waits until operation 1 is done or the reduction has ended, and then it is computation
// that waits: what was reduced beside operation 1 does not make the gather any shorter. Of both,
// latencies of 10 ns run beside bytes, bytes of 90 ns at half the speed.
TEST(FluidLanes, GathersAndReductionsTakeTurns) {
  Problem problem = makeTurns({{100, 150, 0}, {10, 30, 0}, {10, 0, 0}, {100, 0, 0}});
  EXPECT_NEAR(fluid(problem).makespanNs, 100 + 10 + 90 + 90 + 100, kTolerance);
  problem.memoryCapBytes = 210; // now they fit beside operation 1
  EXPECT_NEAR(fluid(problem).makespanNs, 100 + 90 + 90 + 100, kTolerance);
}

// Two times 200 ns over replicas: the first begins behind operation 0, the second follows it.
TEST(FluidLanes, ReplicasTakeTheirTime) {
  Problem problem = makeOperations(4);
  problem.operations[2].durationNs = problem.operations[3].durationNs = 0;
  problem.meshes[0].reduceCost = {0, 0.001};
  problem.meshes[0].acrossCost = {0, 10};
  problem.groups = {{"a", 40}, {"b", 40}};
  problem.reductions = {{0, 1, 2, 40, 20}, {1, 2, 3, 40, 20}};
  EXPECT_NEAR(fluid(problem).makespanNs, 100 + 400, 0.1);
  problem.meshes[0].acrossCost.reset();
  EXPECT_NEAR(fluid(problem).makespanNs, 200, 0.1);
}

// Beside 400 ns over replicas a gather of 300 ns runs alone while operation 0 does, 100 ns; where
// they slow each other down to the half, the rest takes its own time.
TEST(FluidLanes, ReplicasShareTheNetwork) {
  Problem problem = makeOperations(4);
  problem.operations[2].durationNs = problem.operations[3].durationNs = 0;
  problem.meshes[0].gatherCost = {0, 1};
  problem.meshes[0].reduceCost = {0, 0.001};
  problem.meshes[0].acrossCost = {0, 10};
  addUse(problem, 300, 3);
  problem.groups.insert(problem.groups.end(), {{"a", 40}, {"b", 40}});
  problem.reductions = {{1, 1, 2, 40, 20}, {2, 2, 3, 40, 20}};
  EXPECT_NEAR(fluid(problem).makespanNs, 100 + 400, 0.1);
  problem.contention.replicas = 2;
  EXPECT_NEAR(fluid(problem).makespanNs, 300 + 400, 0.1);
  problem.contention.replicas = 1.5;
  EXPECT_NEAR(fluid(problem).makespanNs, 100 + 400 + 200. / 2, 0.1);
}

// Behind operation 1 they fit: the gather is launched there, and beside operation 2.
TEST(FluidLanes, GathersTakeTheirTurnAsSoonAsTheyFit) {
  Problem problem = makeTurns({{100, 150, 0}, {10, 30, 0}, {20, 0, 0}, {30, 0, 0}, {100, 0, 0}});
  EXPECT_NEAR(fluid(problem).makespanNs, 100 + 10 + 90 + 90 + 100, kTolerance);
}
