//===- ListScheduleTest.cpp - Positions that were worked out by hand ------===//

#include "fsdp/Schedule/ListSchedule.h"
#include "fsdp/Schedule/Simulate.h"

#include <gtest/gtest.h>

using namespace fsdp::schedule;

namespace {

/// Operations of 100 ns, where 10 bytes are live and none are carried. Collectives take 1 ns per
/// byte.
Problem makeProblem(size_t numOperations) {
  Problem problem;
  problem.operations.assign(numOperations, {100, 10, 0});
  problem.meshes[0].gatherCost = problem.meshes[0].reduceCost = {0, 1};
  return problem;
}

void addUse(Problem &problem, uint32_t operation, int64_t bytes) {
  problem.uses.push_back({uint32_t(problem.groups.size()), operation, operation});
  problem.groups.push_back({"g" + std::to_string(problem.groups.size()), bytes});
}

Decisions decideSingly(const Problem &problem) {
  Decisions decisions;
  decisions.kept.resize(problem.uses.size());
  for (uint32_t i = 0; i < problem.uses.size(); ++i)
    decisions.gathers.push_back({{i}, 0});
  for (uint32_t i = 0; i < problem.reductions.size(); ++i)
    decisions.reductions.push_back({i});
  return decisions;
}

Plan schedule(const Problem &problem, const Decisions &decisions) {
  EXPECT_EQ(problem.check(), std::nullopt);
  ListScheduleResult result = listSchedule(problem, decisions);
  EXPECT_TRUE(result.plan);
  if (!result.plan)
    return {};
  EXPECT_EQ(verify(problem, *result.plan), std::nullopt);
  EXPECT_DOUBLE_EQ(makespanNs(problem, *result.plan), result.makespanNs);
  return *result.plan;
}

std::vector<uint32_t> launchesOf(const Plan &plan) {
  std::vector<uint32_t> launches;
  for (const GatherBucket &bucket : plan.gathers)
    launches.push_back(bucket.launch);
  return launches;
}

} // namespace

// The lane is busy with the first gather until 40 (operation 0 waits), with the second from 40 to
// 200. Operation 0 runs 40..140, operation 1 140..240: during it the lane becomes free, so the
// third is launched before operation 1 and not before operation 0, where it would only hold memory.
TEST(ListSchedule, LaunchesBeforeTheOperationInWhichTheLaneBecomesFree) {
  Problem problem = makeProblem(5);
  addUse(problem, 0, 40);
  addUse(problem, 3, 160);
  addUse(problem, 4, 10);
  Plan plan = schedule(problem, decideSingly(problem));
  EXPECT_EQ(launchesOf(plan), (std::vector<uint32_t>{0, 0, 1}));
  EXPECT_DOUBLE_EQ(simulate(problem, plan).gathers[2].startNs, 200);
}

// Operation 1 has room for 50 bytes beside its 10, operation 2 for all.
TEST(ListSchedule, WaitsUntilTheMemoryIsThereAndStaysThere) {
  Problem problem = makeProblem(5);
  addUse(problem, 0, 40);
  addUse(problem, 4, 60);
  problem.operations[1].liveBytes = 30;
  problem.memoryCapBytes = 80;
  EXPECT_EQ(launchesOf(schedule(problem, decideSingly(problem))), (std::vector<uint32_t>{0, 2}));
}

// The third gather fits now, but then the second one, which is used before it, would not.
TEST(ListSchedule, DoesNotStarveANearerUse) {
  Problem problem = makeProblem(5);
  addUse(problem, 0, 40);
  addUse(problem, 2, 60);
  addUse(problem, 4, 30);
  problem.memoryCapBytes = 80;
  Decisions decisions = decideSingly(problem);
  // Operation 0 has room for 80 - 10 - 40 = 30, operation 1 for 70, operation 2 for 10.
  EXPECT_EQ(launchesOf(schedule(problem, decisions)), (std::vector<uint32_t>{0, 1, 3}));
  // With room for both at operation 2, the third still follows the second, although operation 0 has
  // room for it.
  problem.memoryCapBytes = 100;
  EXPECT_EQ(launchesOf(schedule(problem, decisions)), (std::vector<uint32_t>{0, 1, 1}));
}

TEST(ListSchedule, HoldsGates) {
  Problem problem = makeProblem(5);
  addUse(problem, 0, 40);
  addUse(problem, 4, 60);
  Decisions decisions = decideSingly(problem);
  decisions.gathers[1].gate = 3;
  EXPECT_EQ(launchesOf(schedule(problem, decisions)), (std::vector<uint32_t>{0, 3}));
  decisions.gathers[1].gate = 9; // its use is a gate as well
  EXPECT_EQ(launchesOf(schedule(problem, decisions)), (std::vector<uint32_t>{0, 4}));
}

// Only what is launched ahead of its use is held to the tighter cap: the use itself needs 70.
TEST(ListSchedule, LaunchesAheadWithinATighterCap) {
  Problem problem = makeProblem(3);
  addUse(problem, 0, 40);
  addUse(problem, 2, 60);
  Decisions decisions = decideSingly(problem);
  decisions.memoryCapBytes = 65;
  EXPECT_EQ(launchesOf(schedule(problem, decisions)), (std::vector<uint32_t>{0, 2}));
  decisions.memoryCapBytes = 70;
  EXPECT_EQ(launchesOf(schedule(problem, decisions)), (std::vector<uint32_t>{0, 1}));
}

namespace {

/// A reduction of 150 bytes to none that is ready at position 1, and whose update is operation 4.
Problem makeReducing() {
  Problem problem = makeProblem(5);
  problem.groups = {{"a", 0}};
  problem.reductions = {{0, 1, 4, 150, 0}};
  problem.operations[0].liveBytes = 160;
  return problem;
}

} // namespace

// The reduction runs from 100 to 250, within operation 2: it is waited for at position 3.
TEST(ListSchedule, WaitsForReductionsThatHaveEnded) {
  Problem problem = makeReducing();
  Plan plan = schedule(problem, decideSingly(problem));
  EXPECT_EQ(plan.reductions, (std::vector<ReductionBucket>{{{0}, 1, 3}}));
}

// Operation 2 has no room beside the input: computation stands still from 200 to 250.
TEST(ListSchedule, WaitsForReductionsWhoseMemoryIsNeeded) {
  Problem problem = makeReducing();
  problem.operations[2].liveBytes = 20;
  problem.memoryCapBytes = 160;
  Plan plan = schedule(problem, decideSingly(problem));
  EXPECT_EQ(plan.reductions, (std::vector<ReductionBucket>{{{0}, 1, 2}}));
  EXPECT_DOUBLE_EQ(simulate(problem, plan).exposedReductionNs[0], 50);
}

// There is room for the gather of 50 bytes at operation 2 only once the reduction has ended; to
// launch it there would mean to wait for the reduction. Neither that, nor at operation 1.
TEST(ListSchedule, DoesNotStallTheNextOperationBehindAReduction) {
  Problem problem = makeReducing();
  problem.memoryCapBytes = 180;
  problem.groups.push_back({"b", 50});
  problem.uses = {{1, 4, 4}};
  Plan plan = schedule(problem, decideSingly(problem));
  EXPECT_EQ(plan.reductions, (std::vector<ReductionBucket>{{{0}, 1, 3}}));
  EXPECT_EQ(launchesOf(plan), std::vector<uint32_t>{3});
  EXPECT_DOUBLE_EQ(makespanNs(problem, plan), 500);
}

// Input and output fit beside operation 2, but not beside operation 1: the reduction is put off by
// one operation rather than waited for at once.
TEST(ListSchedule, PutsAReductionOffRatherThanStandStill) {
  Problem problem = makeReducing();
  problem.reductions[0].outputBytes = 75;
  problem.operations[1].liveBytes = 30;
  problem.memoryCapBytes = 240;
  Plan plan = schedule(problem, decideSingly(problem));
  EXPECT_EQ(plan.reductions[0].launch, 2u);
  EXPECT_DOUBLE_EQ(simulate(problem, plan).exposedReductionNs[0], 0);
}

// On a shared lane a gather of 150 bytes for operation 3 and a reduction of 120 bytes are both
// possible at position 1.
TEST(ListSchedule, SharesALane) {
  Problem problem = makeReducing();
  problem.oneLane = true;
  problem.reductions[0].inputBytes = 120;
  problem.groups.push_back({"b", 150});
  problem.uses = {{1, 3, 3}};
  Decisions decisions = decideSingly(problem);
  decisions.gathers[0].gate = 1;
  Plan plan = schedule(problem, decisions);
  EXPECT_EQ(plan.reductions[0].launch, 1u);
  EXPECT_EQ(launchesOf(plan), std::vector<uint32_t>{2}); // lane busy until 220
  decisions.gathersGoFirst = true;
  plan = schedule(problem, decisions);
  EXPECT_EQ(launchesOf(plan), std::vector<uint32_t>{1});
  EXPECT_EQ(plan.reductions[0].launch, 2u); // lane busy until 250
}

// Put off until operation 3, the reduction holds its input beside operations 1 and 2. A gather for
// operation 3 that would take that room waits; where operation 1 has no room for the input, the
// reduction is not put off.
TEST(ListSchedule, PutsReductionsOffUntilTheirGate) {
  Problem problem = makeReducing();
  problem.groups.push_back({"b", 50});
  problem.uses = {{1, 3, 3}};
  const Reduction &reduction = problem.reductions[0];
  ASSERT_EQ(reduction.ready, 1u);
  Decisions decisions = decideSingly(problem);
  decisions.reductionGates = {3};
  Plan plan = schedule(problem, decisions);
  EXPECT_EQ(plan.reductions[0].launch, 3u);
  EXPECT_EQ(launchesOf(plan), std::vector<uint32_t>{0});
  problem.memoryCapBytes = 10 + reduction.inputBytes + 40;
  plan = schedule(problem, decisions);
  EXPECT_EQ(plan.reductions[0].launch, 3u);
  EXPECT_EQ(launchesOf(plan), std::vector<uint32_t>{3});
  problem.operations[1].liveBytes += 41;
  EXPECT_EQ(schedule(problem, decisions).reductions[0].launch, 1u);
}

/// Those by which a list schedule launches everything where the plan does.
static Decisions decisionsOf(const Problem &problem, const Plan &plan) {
  Decisions decisions;
  decisions.kept = plan.kept;
  for (const GatherBucket &bucket : plan.gathers)
    decisions.gathers.push_back({bucket.uses, bucket.launch});
  decisions.reductionGates.resize(problem.reductions.size());
  for (const ReductionBucket &bucket : plan.reductions) {
    decisions.reductions.push_back(bucket.reductions);
    for (uint32_t reduction : bucket.reductions)
      decisions.reductionGates[reduction] = bucket.launch;
  }
  decisions.shareLane = plan.shareLane;
  return decisions;
}

// What is kept, merged, and launched later than it could be, on both lanes or on one.
TEST(ListSchedule, FindsThePlanOfItsDecisionsAgain) {
  Problem problem = makeProblem(8);
  for (uint32_t operation : {0, 3, 4})
    addUse(problem, operation, 40);
  problem.uses.push_back({0, 6, 6});
  problem.uses.push_back({1, 7, 7});
  problem.reductions = {{0, 1, 7, 30, 5}, {1, 2, 7, 30, 5}, {2, 4, 7, 30, 5}};
  for (bool shareLane : {false, true}) {
    Decisions decisions;
    decisions.kept = {0, 0, 0, 1, 0};
    decisions.gathers = {{{0}, 0}, {{1, 2}, 2}, {{4}, 6}};
    decisions.reductions = {{0, 1}, {2}};
    decisions.reductionGates = {4, 4, 6};
    decisions.shareLane = shareLane;
    const Plan plan = schedule(problem, decisions);
    EXPECT_EQ(launchesOf(plan), (std::vector<uint32_t>{0, 2, 6}));
    EXPECT_EQ(plan.reductions[0].launch, 4u);
    EXPECT_EQ(plan.reductions[1].launch, 6u);
    EXPECT_EQ(schedule(problem, decisionsOf(problem, plan)), plan);
  }
}

TEST(ListSchedule, RefusesWhatFitsNoSchedule) {
  // Kept between its two uses, the copy does not fit beside operation 1.
  Problem problem = makeProblem(3);
  problem.groups = {{"a", 100}};
  problem.uses = {{0, 0, 0}, {0, 2, 2}};
  problem.operations[1].liveBytes = 20;
  problem.memoryCapBytes = 110;
  Decisions decisions = decideSingly(problem);
  EXPECT_TRUE(listSchedule(problem, decisions).plan);
  decisions.kept = {0, 1};
  decisions.gathers.pop_back();
  EXPECT_FALSE(listSchedule(problem, decisions).plan);
  // A bucket waits for its second member until operation 2, while operation 1 waits for the first
  // one's memory.
  problem = makeReducing();
  problem.reductions.push_back({0, 2, 4, 10, 0});
  problem.operations[1].liveBytes = 20;
  problem.memoryCapBytes = 160;
  decisions = decideSingly(problem);
  EXPECT_TRUE(listSchedule(problem, decisions).plan);
  decisions.reductions = {{0, 1}};
  EXPECT_FALSE(listSchedule(problem, decisions).plan);
}

TEST(ListSchedule, RefusesIncompleteDecisions) {
  Problem problem = makeReducing();
  problem.groups.push_back({"b", 50});
  problem.uses = {{1, 1, 1}, {1, 3, 3}};
  auto isRefused = [&](void (*change)(Decisions &)) {
    Decisions decisions = decideSingly(problem);
    EXPECT_TRUE(listSchedule(problem, decisions).plan);
    change(decisions);
    return !listSchedule(problem, decisions).plan;
  };
  EXPECT_TRUE(isRefused([](Decisions &d) { d.kept.clear(); }));
  EXPECT_TRUE(isRefused([](Decisions &d) { d.kept[1] = 1; }));        // and gathered
  EXPECT_TRUE(isRefused([](Decisions &d) { d.gathers.pop_back(); })); // neither
  EXPECT_TRUE(isRefused([](Decisions &d) { d.gathers[0].uses = {2}; }));
  EXPECT_TRUE(isRefused([](Decisions &d) { d.gathers = {{{0, 1}, 0}}; })); // two copies at once
  EXPECT_TRUE(isRefused([](Decisions &d) { d.reductions.clear(); }));
  EXPECT_TRUE(isRefused([](Decisions &d) { d.reductions = {{0}, {0}}; }));
  EXPECT_TRUE(isRefused([](Decisions &d) { d.reductionGates = {0, 0}; }));
  problem.groups[1].keep = KeepRule::Always;
  Decisions decisions = decideSingly(problem);
  EXPECT_FALSE(listSchedule(problem, decisions).plan);
  decisions.kept[1] = 1;
  decisions.gathers.pop_back();
  EXPECT_TRUE(listSchedule(problem, decisions).plan);
  problem.groups[1].keep = KeepRule::Never;
  EXPECT_FALSE(listSchedule(problem, decisions).plan);
}

// One scheduler for many decisions finds what a new one finds.
TEST(ListSchedule, HasNoMemoryOfEarlierDecisions) {
  Problem problem = makeReducing();
  problem.groups.push_back({"b", 50});
  problem.uses = {{1, 4, 4}};
  ListScheduler scheduler(problem);
  Decisions decisions = decideSingly(problem), gated = decisions;
  gated.gathers[0].gate = 2;
  ListScheduleResult first = scheduler(decisions);
  scheduler(gated);
  EXPECT_EQ(scheduler(decisions).plan, first.plan);
  EXPECT_EQ(listSchedule(problem, gated).plan, scheduler(gated).plan);
}
