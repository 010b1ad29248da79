//===- BeamSearchTest.cpp - Gathers launched anew --------------------------===//

#include "BeamSearch.h"
#include "BeamClock.h"
#include "ExhaustiveSearch.h"
#include "RandomProblem.h"
#include "Search.h"
#include "Streams.h"
#include "fsdp/Schedule/Policies.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace fsdp::schedule;

// Both lanes, at their pace: what Streams.h says, event for event.
TEST(BeamClock, AgreesWithStreams) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Problem problem;
    problem.laneContention = random.chance(.3) ? 2 : random.real(1, 2);
    problem.computeContention = random.chance(.3) ? 1 : random.real(1, 1.5);
    std::vector<double> reductionNs;
    for (int i = 0; i < 20; ++i)
      reductionNs.push_back(random.chance(.1) ? 0 : random.real(0, 50));
    const BeamClock clock(problem, reductionNs);
    Progress progress;
    Streams streams(problem);
    std::vector<Ticket> gathers, reductions;
    for (int event = 0; event < 60; ++event) {
      const int64_t kind = random.integer(0, 4);
      if (kind == 0 && progress.queuedNs == 0) {
        const double durationNs = random.chance(.1) ? 0 : random.real(0, 50);
        clock.launchGathers(progress, uint32_t(gathers.size() + 1), durationNs);
        gathers.push_back(streams.launch(0, durationNs));
      } else if (kind == 1 && reductions.size() < reductionNs.size()) {
        clock.launchReductions(progress);
        reductions.push_back(streams.launch(1, reductionNs[reductions.size()]));
      } else if (kind == 2 && !gathers.empty()) {
        const auto index = size_t(random.integer(0, int64_t(gathers.size()) - 1));
        EXPECT_TRUE(clock.waitForGathers(progress, uint32_t(index + 1)));
        streams.waitFor(gathers[index]);
      } else if (kind == 3 && !reductions.empty()) {
        const auto index = size_t(random.integer(0, int64_t(reductions.size()) - 1));
        clock.waitForReductions(progress, uint32_t(index + 1));
        streams.waitFor(reductions[index]);
      } else {
        const double durationNs = random.real(0, 40);
        clock.compute(progress, durationNs);
        streams.compute(durationNs);
      }
      ASSERT_NEAR(progress.nowNs, streams.getNow(), 1e-2);
    }
    EXPECT_FALSE(clock.waitForGathers(progress, uint32_t(gathers.size() + 1)));
    EXPECT_NEAR(clock.finish(progress), streams.finish(), 1e-2);
  }
}

static void addUse(Problem &problem, uint32_t group, uint32_t first) {
  problem.uses.push_back({group, first, first});
}

/// Groups of 100 bytes, used in operations 1, 3, 5, ... and, the last one first, again behind
/// those; nothing else takes memory.
static Problem makeRoundTrip(uint32_t numGroups, int64_t capBytes) {
  Problem problem;
  problem.operations.assign(4 * numGroups + 1, {100, 0, 0});
  for (uint32_t i = 0; i < numGroups; ++i) {
    problem.groups.push_back({"group", 100});
    addUse(problem, i, 2 * i + 1);
  }
  for (uint32_t i = numGroups; i-- > 0;)
    addUse(problem, i, 4 * numGroups - 1 - 2 * i);
  problem.gatherCost = {10, .5};
  problem.memoryCapBytes = capBytes;
  return problem;
}

static Plan gatherAtUses(const Problem &problem) {
  Plan plan;
  plan.kept.assign(problem.uses.size(), 0);
  for (uint32_t use = 0; use < problem.uses.size(); ++use)
    plan.gathers.push_back({{use}, problem.uses[use].first});
  return plan;
}

static std::optional<BeamOutline> outlineOf(const Problem &problem, const Plan &plan,
                                            bool lateWaits = false) {
  return makeOutline(SearchSpace(problem), plan, plan.kept, lateWaits);
}

// Two copies fit: one may be launched as soon as all but the one before it have been used, and
// again when its first use is over.
TEST(BeamOutline, LaunchesWhereThereIsRoom) {
  Problem problem = makeRoundTrip(3, 250);
  Plan plan = gatherAtUses(problem);
  std::optional<BeamOutline> outline = outlineOf(problem, plan);
  ASSERT_TRUE(outline);
  EXPECT_EQ(outline->gates, (std::vector<uint32_t>{0, 0, 2, 6, 6, 8}));
  EXPECT_EQ(outline->begin, 6u);
  ASSERT_EQ(outline->given.size(), 3u);
  EXPECT_EQ(outline->given.back().end, 3u);
  // The last one's copy is kept: beside it there is room for one.
  plan.kept[3] = 1;
  outline = outlineOf(problem, plan);
  ASSERT_TRUE(outline);
  EXPECT_EQ(outline->gathers, (std::vector<uint32_t>{0, 1, 2, 4, 5}));
  EXPECT_EQ(outline->gates, (std::vector<uint32_t>{0, 0, 2, 4, 8}));
  // Where there is room for one copy, that of the first group cannot stay.
  problem.memoryCapBytes = 150;
  plan.kept = {0, 0, 0, 0, 0, 1};
  EXPECT_FALSE(outlineOf(problem, plan));
}

// An input of 120 bytes is there from operation 4 until its wait. Launched as late as in the plan
// or as soon as it is ready, which takes the output's 20 bytes earlier.
TEST(BeamOutline, LaunchesReductionsWhenReadyIfThatFits) {
  Problem problem = makeRoundTrip(2, 300);
  problem.reductions = {{0, 4, 8, 120, 20}};
  Plan plan = gatherAtUses(problem);
  plan.reductions = {{{0}, 6, 6}};
  std::optional<BeamOutline> outline = outlineOf(problem, plan);
  ASSERT_TRUE(outline);
  EXPECT_EQ(outline->plan.reductions.front().launch, 4u);
  problem.memoryCapBytes = 230; // beside the copy that operation 5 uses
  outline = outlineOf(problem, plan);
  ASSERT_TRUE(outline);
  EXPECT_EQ(outline->plan.reductions.front().launch, 6u);
  EXPECT_EQ(outline->plan.reductions.front().wait, 6u);
  EXPECT_FALSE(outlineOf(problem, plan, /*lateWaits=*/true));
  problem.memoryCapBytes = 300;
  outline = outlineOf(problem, plan, /*lateWaits=*/true);
  ASSERT_TRUE(outline);
  EXPECT_EQ(outline->plan.reductions.front().wait, 8u);
}

// While a reduction is launched its input and output lie beside the copy, before operation 3.
TEST(BeamOutline, LeavesRoomForLaunchesOfReductions) {
  Problem problem = makeRoundTrip(1, 250);
  problem.uses = {{0, 4, 4}};
  problem.reductions = {{0, 3, 4, 100, 100}};
  Plan plan = gatherAtUses(problem);
  plan.reductions = {{{0}, 3, 3}};
  std::optional<BeamOutline> outline = outlineOf(problem, plan);
  ASSERT_TRUE(outline);
  EXPECT_EQ(outline->gates, (std::vector<uint32_t>{3}));
}

// The first one has time, but the second one is behind it on the lane.
TEST(BeamOutline, WaitsInTheOrderOfTheLane) {
  Problem problem = makeRoundTrip(2, 1000);
  problem.reductions = {{0, 1, 8, 10, 0}, {1, 2, 5, 10, 0}};
  Plan plan = gatherAtUses(problem);
  plan.reductions = {{{0}, 1, 1}, {{1}, 2, 2}};
  std::optional<BeamOutline> outline = outlineOf(problem, plan, /*lateWaits=*/true);
  ASSERT_TRUE(outline);
  EXPECT_EQ(outline->plan.reductions[0].wait, 5u);
  EXPECT_EQ(outline->plan.reductions[1].wait, 5u);
  // Launched in another order than they get ready, they are launched as in the plan.
  plan.reductions = {{{1}, 2, 2}, {{0}, 3, 3}};
  outline = outlineOf(problem, plan);
  ASSERT_TRUE(outline);
  EXPECT_EQ(outline->plan.reductions, plan.reductions);
}

static Plan searchFrom(const Problem &problem, Plan plan) {
  OptimizeOptions options{.simulationBudget = 20'000, .targetRatio = 1};
  Evaluator evaluator(problem, options);
  evaluator.consider(std::move(plan), "given");
  searchBeam(SearchSpace(problem), {}, std::nullopt, evaluator);
  EXPECT_LE(evaluator.numSimulations(), options.simulationBudget + 1);
  return evaluator.best().plan;
}

// Gathers of 10 + 50 ns beside operations of 100 ns: but for the first one all are hidden, and all
// are in time one by one. A bucket of two is in time as well, but the first one cannot wait.
TEST(BeamSearch, HidesGathers) {
  Problem problem = makeRoundTrip(6, 250);
  Plan plan = searchFrom(problem, gatherAtUses(problem));
  EXPECT_EQ(verify(problem, plan), std::nullopt);
  EXPECT_DOUBLE_EQ(makespanNs(problem, plan), 100 * double(problem.operations.size()));
}

// Gathers of 250 + 10 ns, one for each 200 ns: in pairs they are in time.
TEST(BeamSearch, MergesGathers) {
  Problem problem = makeRoundTrip(6, 450);
  problem.gatherCost = {250, .1};
  Plan plan = searchFrom(problem, gatherAtUses(problem));
  EXPECT_EQ(verify(problem, plan), std::nullopt);
  EXPECT_LT(plan.gathers.size(), 9u);
  const double computeNs = 100 * double(problem.operations.size());
  EXPECT_LT(makespanNs(problem, plan), computeNs + 400);
  EXPECT_GT(makespanNs(problem, gatherAtUses(problem)), computeNs + 2000);
}

// No bucket of several members is larger than it may be.
TEST(BeamSearch, KeepsToTheLimitOfBuckets) {
  Problem problem = makeRoundTrip(6, 650);
  problem.gatherCost = {250, .1};
  Plan plan = gatherAtUses(problem);
  std::optional<BeamOutline> outline = outlineOf(problem, plan);
  ASSERT_TRUE(outline);
  auto findLargest = [&](int64_t bucketBytes) {
    BeamResult result = searchOutline(problem, *outline, {bucketBytes, 100'000, 1e9});
    size_t most = 0;
    for (const GatherBucket &bucket : result.plan->gathers)
      most = std::max(most, bucket.uses.size());
    return most;
  };
  EXPECT_EQ(findLargest(50), 1u);
  EXPECT_EQ(findLargest(250), 2u);
  EXPECT_GT(findLargest(INT64_MAX), 2u);
}

// The second gather follows on the first one while computation waits for that.
TEST(BeamSearch, LaunchesSeveralBucketsAtOnePosition) {
  Problem problem;
  problem.operations.assign(2, {10, 0, 0});
  problem.groups = {{"a", 100}, {"b", 100}};
  addUse(problem, 0, 0);
  addUse(problem, 1, 1);
  problem.gatherCost = {0, .5};
  Plan plan = gatherAtUses(problem);
  std::optional<BeamOutline> outline = outlineOf(problem, plan);
  ASSERT_TRUE(outline);
  outline->begin = 0;
  BeamResult result = searchOutline(problem, *outline, {INT64_MAX, 1000, 115});
  ASSERT_TRUE(result.plan);
  EXPECT_DOUBLE_EQ(result.makespanNs, 50 + 50 + 10);
}

// Never better than the best of all plans, and mostly as good where reductions cannot be merged.
TEST(BeamSearch, FindsTheBestPlanOfMostTinyProblems) {
  int numCases = 0, numOptimal = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Problem problem = makeTinyProblem(seed);
    if (!canSearchBeam(problem, 10'000) || problem.reductions.size() > 1)
      continue;
    const int64_t minimum = problem.minimumPeak().bytes;
    const std::vector<int64_t> caps = {minimum, minimum * 6 / 5, minimum * 2};
    const std::vector<double> optima = findOptima(problem, caps);
    for (size_t i = 0; i < caps.size(); ++i) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", cap " + std::to_string(caps[i]));
      problem.memoryCapBytes = caps[i];
      std::optional<Plan> plan = planByPolicy(problem, Policy::Asap);
      ASSERT_TRUE(plan);
      const Plan found = searchFrom(problem, *plan);
      ASSERT_EQ(verify(problem, found), std::nullopt);
      const double foundNs = makespanNs(problem, found);
      ASSERT_GE(foundNs, optima[i] * (1 - 1e-12));
      ASSERT_LE(foundNs, makespanNs(problem, *plan));
      numOptimal += foundNs <= optima[i] * (1 + 1e-9);
      ++numCases;
    }
  }
  EXPECT_GT(numCases, 100);
  EXPECT_GT(numOptimal, numCases * 9 / 10) << numCases;
}

// Steps with contention, from what a policy plans: valid, as fast as the search says, about within
// the limit, the same each time.
TEST(BeamSearch, ImprovesSteps) {
  int numSearched = 0, numBetter = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Problem problem = makeRandomProblem(seed);
    if (!canSearchBeam(problem, 10'000))
      continue;
    problem.memoryCapBytes = problem.minimumPeak().bytes / 10 * 11;
    std::optional<Plan> plan = planByPolicy(problem, Policy::Asap);
    ASSERT_TRUE(plan);
    const double before = makespanNs(problem, *plan);
    const Plan found = searchFrom(problem, *plan);
    EXPECT_EQ(verify(problem, found), std::nullopt);
    EXPECT_EQ(found, searchFrom(problem, *plan));
    numBetter += makespanNs(problem, found) < before;
    ++numSearched;
    for (bool lateWaits : {false, true}) {
      std::optional<BeamOutline> outline = outlineOf(problem, *plan, lateWaits);
      if (!outline)
        continue;
      const int64_t steps = 100 * int64_t(problem.operations.size());
      BeamResult result = searchOutline(problem, *outline, {INT64_MAX, steps, 2 * before});
      ASSERT_TRUE(result.plan);
      EXPECT_NEAR(result.makespanNs, makespanNs(problem, *result.plan), 1e-6 * before);
      EXPECT_GT(result.steps, int64_t(problem.operations.size()));
      EXPECT_LE(result.steps, 2 * steps);
    }
  }
  EXPECT_GT(numSearched, 20);
  EXPECT_GT(numBetter, numSearched / 2);
}

// A local search goes on from what was found.
TEST(BeamSearch, LeavesDecisions) {
  Problem problem = makeRoundTrip(6, 250);
  OptimizeOptions options{.simulationBudget = 20'000, .targetRatio = 1};
  Evaluator evaluator(problem, options);
  evaluator.consider(gatherAtUses(problem), "given");
  const double before = evaluator.best().makespanNs;
  searchBeam(SearchSpace(problem), {}, std::nullopt, evaluator);
  EXPECT_LT(evaluator.best().makespanNs, before);
  EXPECT_DOUBLE_EQ(evaluator.bestDecisions().makespanNs, evaluator.best().makespanNs);
}

// What it does counts.
TEST(BeamSearch, SpendsItsBudget) {
  Problem problem = makeRoundTrip(6, 250);
  OptimizeOptions options{.simulationBudget = 1000, .targetRatio = 1};
  Evaluator evaluator(problem, options);
  evaluator.consider(gatherAtUses(problem), "given");
  searchBeam(SearchSpace(problem), {}, std::nullopt, evaluator);
  EXPECT_GT(evaluator.numSimulations(), 2);
  EXPECT_LE(evaluator.numSimulations(), options.simulationBudget + 1);
}

TEST(BeamSearch, NeedsTwoLanesWithoutReplicasAndABudget) {
  Problem problem = makeRoundTrip(2, 300);
  EXPECT_TRUE(canSearchBeam(problem, 10'000));
  EXPECT_FALSE(canSearchBeam(problem, 100));
  problem.oneLane = true;
  EXPECT_FALSE(canSearchBeam(problem, 10'000));
  problem.oneLane = false;
  problem.acrossCost = CollectiveCost{1, 1};
  EXPECT_FALSE(canSearchBeam(problem, 10'000));
}
