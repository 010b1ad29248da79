//===- SimulateTest.cpp - Timelines that were worked out by hand ----------===//

#include "fsdp/Schedule/Simulate.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace fsdp::schedule;

namespace {

/// Groups a and b of 10 bytes: forward a (operation 0) and b (1), backward b (2) and a (3), then
/// the updates of a (4) and of b (5). Operations take 100 ns, collectives 5 ns + 3 ns per byte.
Problem makeTwoGroups() {
  Problem problem;
  problem.operations.assign(6, {100, 0, 0});
  problem.groups = {{"a", 10}, {"b", 10}};
  problem.uses = {{0, 0, 0}, {1, 1, 1}, {1, 2, 2}, {0, 3, 3}};
  problem.reductions = {{1, 3, 5, 10, 5}, {0, 4, 4, 10, 5}};
  problem.meshes[0].gatherCost = problem.meshes[0].reduceCost = {5, 3};
  return problem;
}

/// b is kept; each gather is launched at `launches`, the reductions when they are ready.
Plan makePlan(uint32_t launchB = 1, uint32_t launchA = 3) {
  Plan plan;
  plan.kept = {0, 0, 1, 0};
  plan.gathers = {{{0}, 0}, {{1}, launchB}, {{3}, launchA}};
  plan.reductions = {{{0}, 3, 4}, {{1}, 4, 4}};
  return plan;
}

void expectInterval(Interval interval, double startNs, double endNs) {
  EXPECT_DOUBLE_EQ(interval.startNs, startNs);
  EXPECT_DOUBLE_EQ(interval.endNs, endNs);
}

} // namespace

// Beside b's gather by copy engines, from 35 to 85, operation 0 is slower by the factor 1.25; by
// kernels it would be by 2.
TEST(Simulate, CopyEnginesHaveTheirOwnCostAndContention) {
  Problem problem = makeTwoGroups();
  problem.contention.setOfComputation(2);
  problem.contention.copyEngines = 1.25;
  problem.meshes[0].copyEngineCost = {10, 4};
  Plan plan = makePlan(/*launchB=*/0);
  expectInterval(simulate(problem, plan).operations[0], 35, 70 + 82.5);
  plan.gathers[1].byCopyEngine = true;
  Timeline timeline = simulate(problem, plan);
  expectInterval(timeline.gathers[1], 35, 85);
  expectInterval(timeline.operations[0], 35, 85 + 60);
  EXPECT_DOUBLE_EQ(makespanNs(problem, plan), timeline.makespanNs);
  // A reduction by kernels until 95 makes the factor 2.
  problem.reductions[0] = {1, 0, 5, 30, 5};
  plan.reductions = {{{0}, 0, 4}, {{1}, 4, 4}};
  timeline = simulate(problem, plan);
  expectInterval(timeline.reductions[0], 0, 95);
  expectInterval(timeline.operations[0], 35, 95 + 70);
}

// a's chunk is copied at the end of operation 0, and gathered in 1 ns + 1 ns per byte:
// operation 0   35..139
// gather b      139..174
// operation 2   274..374
// gather a      374..385
// operation 3   385..485
TEST(Simulate, CopiesAndGathersChunks) {
  Problem problem = makeTwoGroups();
  problem.groups[0].chunks = {{2, 5, 4, {1, 1}}};
  Plan plan = makePlan();
  plan.chunked = {0, 0, 0, 1};
  Timeline timeline = simulate(problem, plan);
  expectInterval(timeline.operations[0], 35, 139);
  expectInterval(timeline.gathers[1], 139, 174);
  expectInterval(timeline.operations[2], 274, 374);
  expectInterval(timeline.gathers[2], 374, 385);
  expectInterval(timeline.operations[3], 385, 485);
  EXPECT_DOUBLE_EQ(makespanNs(problem, plan), timeline.makespanNs);
  JitteredMakespan jittered = simulate(problem, plan, {.samples = 3});
  EXPECT_DOUBLE_EQ(jittered.meanNs, timeline.makespanNs);
}

// gather a      0..35    (operation 0 waits 35)
// operation 0   35..135
// gather b      135..170 (operation 1 waits 35)
// operation 1   170..270
// operation 2   270..370
// reduce b      370..405, gather a 370..405 (operation 3 waits 35)
// operation 3   405..505
// reduce a      505..540 (operation 4 waits 35; b has long ended)
// operation 4   540..640, 5 640..740
TEST(Simulate, ExposesWhatIsLaunchedAtItsUse) {
  Timeline timeline = simulate(makeTwoGroups(), makePlan());
  expectInterval(timeline.gathers[0], 0, 35);
  expectInterval(timeline.operations[0], 35, 135);
  expectInterval(timeline.gathers[1], 135, 170);
  expectInterval(timeline.operations[2], 270, 370);
  expectInterval(timeline.reductions[0], 370, 405);
  expectInterval(timeline.gathers[2], 370, 405);
  expectInterval(timeline.operations[3], 405, 505);
  expectInterval(timeline.reductions[1], 505, 540);
  EXPECT_DOUBLE_EQ(timeline.makespanNs, 740);
  EXPECT_EQ(timeline.exposedGatherNs, (std::vector<double>{35, 35, 35}));
  EXPECT_EQ(timeline.exposedReductionNs, (std::vector<double>{0, 35}));
  EXPECT_EQ(makespanNs(makeTwoGroups(), makePlan()), timeline.makespanNs);
}

// Launched one operation earlier, both gathers run under computation: two waits of 35 less.
TEST(Simulate, HidesWhatIsLaunchedEarlier) {
  Timeline timeline = simulate(makeTwoGroups(), makePlan(0, 2));
  expectInterval(timeline.gathers[1], 35, 70);
  EXPECT_EQ(timeline.exposedGatherNs, (std::vector<double>{35, 0, 0}));
  EXPECT_DOUBLE_EQ(timeline.makespanNs, 670);
}

// One lane: at position 3 the reduction goes first, so the gather ends at 440 and not at 405.
TEST(Simulate, SharesALane) {
  Problem problem = makeTwoGroups();
  Plan plan = makePlan();
  plan.shareLane = true;
  Timeline timeline = simulate(problem, plan);
  expectInterval(timeline.reductions[0], 370, 405);
  expectInterval(timeline.gathers[2], 405, 440);
  EXPECT_DOUBLE_EQ(timeline.makespanNs, 775);
  plan.shareLane = false;
  problem.oneLane = true;
  EXPECT_EQ(makespanNs(problem, plan), 775);
}

// Over replicas what is left of b goes on 405..430 and hides, that of a 540..565: operation 4 waits
// for the reduction and then for that.
TEST(Simulate, GoesOnOverReplicas) {
  Problem problem = makeTwoGroups();
  problem.meshes[0].acrossCost = {5, 4};
  Timeline timeline = simulate(problem, makePlan());
  expectInterval(*timeline.across[0], 405, 430);
  expectInterval(*timeline.across[1], 540, 565);
  expectInterval(timeline.operations[4], 565, 665);
  EXPECT_EQ(timeline.exposedReductionNs, (std::vector<double>{0, 35}));
  EXPECT_EQ(timeline.exposedAcrossNs, (std::vector<double>{0, 25}));
  EXPECT_DOUBLE_EQ(timeline.makespanNs, 765);
  EXPECT_EQ(makespanNs(problem, makePlan()), 765);
}

// On GPUs the gather of a is launched behind the all-reduce of b, so it starts with that: at 405
// and not at 370.
TEST(Simulate, StartsInTheOrderOfLaunchOnGpus) {
  Problem problem = makeTwoGroups();
  problem.meshes[0].acrossCost = {5, 4};
  problem.onGpus = true;
  Timeline timeline = simulate(problem, makePlan());
  expectInterval(timeline.reductions[0], 370, 405);
  expectInterval(*timeline.across[0], 405, 430);
  expectInterval(timeline.gathers[2], 405, 440);
  expectInterval(timeline.reductions[1], 540, 575);
  EXPECT_DOUBLE_EQ(timeline.makespanNs, 800);
}

// On GPUs a gather that is launched behind a reduction in a queue starts with that reduction.
TEST(Simulate, GathersStartBehindQueuedReductionsOnGpus) {
  Problem problem = makeTwoGroups();
  problem.reductions = {{1, 2, 5, 50, 5}, {0, 2, 5, 50, 5}};
  Plan plan = makePlan(/*launchB=*/1, /*launchA=*/3);
  plan.reductions = {{{0}, 2, 5}, {{1}, 2, 5}};
  expectInterval(simulate(problem, plan).gathers[2], 370, 405);
  problem.onGpus = true;
  Timeline timeline = simulate(problem, plan);
  expectInterval(timeline.reductions[0], 270, 425);
  expectInterval(timeline.reductions[1], 425, 580);
  expectInterval(timeline.gathers[2], 425, 460);
}

// On its lane one goes on after the other, each behind its reduction: b takes 405..605 beside the
// reduction of a, which is 505..540, and a 605..805. Both wait for their updates alone.
TEST(Simulate, ReplicasHaveALaneOfTheirOwn) {
  Problem problem = makeTwoGroups();
  problem.meshes[0].acrossCost = {0, 40};
  Timeline timeline = simulate(problem, makePlan());
  expectInterval(*timeline.across[0], 405, 605);
  expectInterval(timeline.reductions[1], 505, 540);
  expectInterval(*timeline.across[1], 605, 805);
  expectInterval(timeline.operations[4], 805, 905);
  // Where both share a network, the reduction's 30 ns of bytes take 60, behind its latency of 5,
  // and as much is added to b's way.
  problem.contention.replicas = 2;
  timeline = simulate(problem, makePlan());
  expectInterval(timeline.reductions[1], 505, 570);
  expectInterval(*timeline.across[0], 405, 635);
}

// The wait for a reduction stands before the launch of gathers at the same position.
TEST(Simulate, WaitsForReductionsBeforeItLaunchesGathers) {
  Plan plan = makePlan();
  plan.reductions[0].wait = 3;
  Timeline timeline = simulate(makeTwoGroups(), plan);
  expectInterval(timeline.reductions[0], 370, 405);
  expectInterval(timeline.gathers[2], 405, 440);
  EXPECT_EQ(timeline.exposedReductionNs, (std::vector<double>{35, 35}));
}

// Both lanes begin at 370: 5 ns of latency, and 30 ns of bytes at half the speed.
TEST(Simulate, SlowsLanesThatAreBothBusy) {
  Problem problem = makeTwoGroups();
  problem.contention.lanes = 2;
  Timeline timeline = simulate(problem, makePlan());
  expectInterval(timeline.reductions[0], 370, 435);
  expectInterval(timeline.gathers[2], 370, 435);
  // A reduction of 20 bytes (65 ns) beside the gather of 35 ns: both at half speed until 435, when
  // the gather is done and 30 ns remain.
  problem.reductions[0].inputBytes = 20;
  Timeline longer = simulate(problem, makePlan());
  expectInterval(longer.gathers[2], 370, 435);
  expectInterval(longer.reductions[0], 370, 465);
  // At 1.5: the gather until 375 + 45, when 30 ns remain.
  problem.contention.lanes = 1.5;
  longer = simulate(problem, makePlan());
  expectInterval(longer.gathers[2], 370, 420);
  expectInterval(longer.reductions[0], 370, 450);
}

// The gather of b is launched at 0 and operation 0 begins at 35: its 5 ns of latency end at 40, its
// 30 ns of bytes take 45 while there is computation. Where computation waits, they take 30.
TEST(Simulate, SlowsBytesBesideComputation) {
  Problem problem = makeTwoGroups();
  problem.contention.computation = 1.5;
  Timeline timeline = simulate(problem, makePlan(/*launchB=*/0));
  expectInterval(timeline.gathers[0], 0, 35);
  expectInterval(timeline.gathers[1], 35, 85);
  expectInterval(timeline.operations[0], 35, 135);
  problem.operations[0].durationNs = 20;
  timeline = simulate(problem, makePlan(/*launchB=*/0));
  expectInterval(timeline.gathers[1], 35, 75);
}

// Beside a gather alone operation 0 is slower by 1.25, beside a reduction alone by 1.5, and by 2
// beside both.
TEST(Simulate, CountsCollectivesBesideComputation) {
  Problem problem = makeTwoGroups();
  problem.contention.gathers = 1.25;
  problem.contention.reductions = 1.5;
  problem.contention.several = 2;
  problem.reductions[0] = {1, 0, 5, 30, 5}; // until 95
  Plan plan = makePlan(/*launchB=*/0);      // until 70
  plan.reductions = {{{0}, 0, 4}, {{1}, 4, 4}};
  const double done = 35 / 2. + 25 / 1.5;
  expectInterval(simulate(problem, plan).operations[0], 35, 95 + 100 - done);
}

// Operation 0 runs from 35 to 145 with gather b beside it from 35 to 70: for 35 ns at the speed
// 1 / 1.25 it gets 28 ns done, the other 72 at full speed: until 142.
TEST(Simulate, SlowsComputationBesideABusyLane) {
  Problem problem = makeTwoGroups();
  problem.contention.setOfComputation(1.25);
  Timeline timeline = simulate(problem, makePlan(0, 2));
  expectInterval(timeline.operations[0], 35, 142);
}

// What nothing waits for counts as well: the last reduction ends after the last operation.
TEST(Simulate, EndsWithTheLastCollective) {
  Problem problem;
  problem.operations.assign(2, {10, 0, 0});
  problem.groups = {{"a", 1}};
  problem.uses = {{0, 1, 1}};
  problem.meshes[0].gatherCost = {100, 0};
  Plan plan;
  plan.kept = {0};
  plan.gathers = {{{0}, 0}};
  EXPECT_DOUBLE_EQ(makespanNs(problem, plan), 110);
}

// Members of a bucket pay the latency once: 5 + 3 * 20.
TEST(Simulate, MergesIntoBuckets) {
  Plan plan = makePlan();
  plan.gathers = {{{0, 1}, 0}, {{3}, 3}};
  plan.reductions = {{{0, 1}, 4, 4}};
  Timeline timeline = simulate(makeTwoGroups(), plan);
  expectInterval(timeline.gathers[0], 0, 65);
  EXPECT_EQ(timeline.exposedGatherNs, (std::vector<double>{65, 35}));
  EXPECT_EQ(timeline.exposedReductionNs, (std::vector<double>{65}));
  EXPECT_DOUBLE_EQ(timeline.makespanNs, 600 + 65 + 35 + 65);
}

TEST(Jitter, WithoutSpreadIsTheNominalMakespan) {
  Jitter jitter;
  jitter.samples = 3;
  JitteredMakespan result = simulate(makeTwoGroups(), makePlan(), jitter);
  EXPECT_NEAR(result.meanNs, 740, 1e-9);
  EXPECT_EQ(result.percentile95Ns, 740);
}

// One operation of 1,000 ns: the makespan is the factor itself. Its logarithm has variance
// log(1 + 0.1^2), its mean is 1, and 95 % lie below exp(1.6449 * deviation - variance / 2).
TEST(Jitter, DrawsFactorsOfMeanOne) {
  Problem problem;
  problem.operations = {{1000, 0, 0}};
  Jitter jitter{0.1, 0, 1, 40000, 7};
  JitteredMakespan result = simulate(problem, Plan(), jitter);
  EXPECT_NEAR(result.meanNs, 1000, 2); // standard error 0.5
  double variance = std::log(1.01);
  double expected = 1000 * std::exp(1.6448536 * std::sqrt(variance) - variance / 2);
  EXPECT_NEAR(result.percentile95Ns, expected, 6);
}

// The operations of a stretch are slow together; between two stretches ranks wait for the slowest,
// which is another one each time.
TEST(Jitter, WaitsForTheSlowestRank) {
  Problem problem;
  problem.operations.assign(100, {10, 0, 0});
  Jitter jitter{0.1, 0, 1, 20000, 7};
  auto deviationOf = [](const JitteredMakespan &of) {
    return (of.percentile95Ns / of.meanNs - 1) / 1.7; // of a log-normal number of this spread
  };
  EXPECT_NEAR(deviationOf(simulate(problem, Plan(), jitter)), 0.1, 0.005);
  // The largest of two normal numbers is 1 / sqrt(pi) on average, of 64 it is 2.3744.
  jitter.ranks = 2;
  EXPECT_NEAR(simulate(problem, Plan(), jitter).meanNs, 1000 * (1 + 0.1 / std::sqrt(M_PI)), 3);
  jitter.ranks = 64;
  jitter.computeSpread = 0.01;
  EXPECT_NEAR(simulate(problem, Plan(), jitter).meanNs, 1000 * (1 + 0.01 * 2.3744), 1);
  // Ten stretches of one group's uses: they even out, but for what the slowest take each time.
  jitter.ranks = 1;
  jitter.computeSpread = 0.1;
  problem.groups = {{"a", 0}};
  for (uint32_t i = 0; i < 5; ++i)
    problem.uses.push_back({0, 20 * i, 20 * i + 9});
  Plan plan;
  plan.kept = {0, 1, 1, 1, 1};
  plan.gathers = {{{0}, 0}};
  JitteredMakespan even = simulate(problem, plan, jitter);
  EXPECT_NEAR(even.meanNs, 1000, 2);
  EXPECT_LT(deviationOf(even), 0.1 / std::sqrt(10) * 1.1);
}

// Plans are compared under the same durations: one that launches b's gather earlier than another
// and is otherwise equal is never slower, in no draw. A plan's figures do not depend on the others.
TEST(Jitter, ComparesPlansUnderTheSameDurations) {
  Problem problem = makeTwoGroups();
  Jitter jitter{0.3, 0.3, 1, 100, 5};
  Plan late = makePlan(1), early = makePlan(0);
  const Plan *plans[] = {&late, &early};
  std::vector<JitteredMakespan> both = simulate(problem, plans, jitter);
  ASSERT_EQ(both.size(), 2u);
  EXPECT_LT(both[1].meanNs, both[0].meanNs);
  EXPECT_LE(both[1].percentile95Ns, both[0].percentile95Ns);
  EXPECT_EQ(both[1].meanNs, simulate(problem, early, jitter).meanNs);
  jitter.samples = 1;
  for (jitter.seed = 0; jitter.seed < 50; ++jitter.seed) {
    both = simulate(problem, plans, jitter);
    EXPECT_LE(both[1].meanNs, both[0].meanNs) << jitter.seed;
  }
}

// The figures of one seed: equal on every machine, to the last bit.
TEST(Jitter, DependsOnTheSeedAlone) {
  Jitter jitter{0.05, 0.2, 8, 50, 1};
  JitteredMakespan first = simulate(makeTwoGroups(), makePlan(), jitter);
  JitteredMakespan again = simulate(makeTwoGroups(), makePlan(), jitter);
  EXPECT_EQ(first.meanNs, again.meanNs);
  EXPECT_EQ(first.percentile95Ns, again.percentile95Ns);
  EXPECT_EQ(first.meanNs, 0x1.86f9c6faf18ap+9);
  EXPECT_EQ(first.percentile95Ns, 0x1.95bf430359d6dp+9);
  jitter.seed = 2;
  EXPECT_NE(first.meanNs, simulate(makeTwoGroups(), makePlan(), jitter).meanNs);
}
