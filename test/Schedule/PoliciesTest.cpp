//===- PoliciesTest.cpp - What others decide ------------------------------===//

#include "Peers.h"
#include "fsdp/Schedule/Policies.h"
#include "fsdp/Schedule/Simulate.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace fsdp::benchmark;
using namespace fsdp::schedule;

namespace {

/// A root with three blocks below it, as FSDP2 sees them: the root's parameters are gathered while
/// its forward and backward run. Operation 0 embeds, 1 to 6 are the blocks' forward, 7 and 8 the
/// head's forward and backward, 9 to 14 the blocks' backward, 15 the embedding's. Updates follow.
Problem makeRootAndBlocks() {
  Problem problem;
  problem.operations.assign(20, {100, 1, 0});
  problem.groups = {{"root", 10}, {"0", 20}, {"1", 20}, {"2", 20}};
  problem.uses = {{0, 0, 7},  {1, 1, 2},  {2, 3, 4},   {3, 5, 6},
                  {0, 8, 15}, {3, 9, 10}, {2, 11, 12}, {1, 13, 14}};
  problem.reductions = {
      {3, 11, 16, 20, 5}, {2, 13, 17, 20, 5}, {1, 15, 18, 20, 5}, {0, 16, 19, 10, 5}};
  problem.meshes[0].gatherCost = problem.meshes[0].reduceCost = {1, 1};
  return problem;
}

std::vector<uint32_t> launchesOf(const Plan &plan) {
  std::vector<uint32_t> launches;
  for (const GatherBucket &bucket : plan.gathers)
    launches.push_back(bucket.launch);
  return launches;
}

} // namespace

// Forward: U root, U 0, U 1, U 2 where they are used. Backward: U root, U 2; then each block's
// gather where the backward before it begins: U 1 | PB 2, U 0 | PB 1, PB 0, PB root.
TEST(Fsdp2, IssuesInItsOrder) {
  Problem problem = makeRootAndBlocks();
  std::optional<Plan> plan = planByPolicy(problem, Policy::Fsdp2);
  ASSERT_TRUE(plan);
  EXPECT_EQ(launchesOf(*plan), (std::vector<uint32_t>{0, 1, 3, 5, 8, 8, 9, 11}));
  for (uint32_t i = 0; i < 8; ++i)
    EXPECT_EQ(plan->gathers[i].uses, std::vector<uint32_t>{i});
  EXPECT_EQ(plan->reductions, (std::vector<ReductionBucket>{
                                  {{0}, 11, 13}, {{1}, 13, 15}, {{2}, 15, 16}, {{3}, 16, 19}}));
  EXPECT_EQ(plan->kept, std::vector<uint8_t>(8));
}

// On GPUs torch's stream of gathers waits in forward for what precedes the last use but one: U 0
// and U 1 | root, U 2 | 0. All collectives of a process group share a communicator.
TEST(Fsdp2, GathersTwoUsesAheadOnGpus) {
  Problem problem = makeRootAndBlocks();
  problem.onGpus = true;
  std::optional<Plan> plan = planByPolicy(problem, Policy::Fsdp2);
  ASSERT_TRUE(plan);
  EXPECT_EQ(launchesOf(*plan), (std::vector<uint32_t>{0, 0, 0, 1, 8, 8, 9, 11}));
  EXPECT_TRUE(plan->shareLane);
  EXPECT_TRUE(decideByPolicy(problem, Policy::Fsdp2).shareLane);
}

// reshard_after_forward as it is by default: the root stays unsharded, and "U root" goes.
TEST(Fsdp2, KeepsTheRoot) {
  Problem problem = makeRootAndBlocks();
  problem.groups[0].keep = KeepRule::Always;
  std::optional<Plan> plan = planByPolicy(problem, Policy::Fsdp2);
  ASSERT_TRUE(plan);
  EXPECT_EQ(launchesOf(*plan), (std::vector<uint32_t>{0, 1, 3, 5, 8, 9, 11}));
  EXPECT_EQ(plan->kept, (std::vector<uint8_t>{0, 0, 0, 0, 1, 0, 0, 0}));
}

// It ignores the cap; only where it exceeds the cap, the list scheduler takes over.
TEST(Fsdp2, FitsACapThroughTheListScheduler) {
  Problem problem = makeRootAndBlocks();
  Plan literal = *planByPolicy(problem, Policy::Fsdp2);
  problem.memoryCapBytes = peakOf(problem, literal).bytes;
  EXPECT_EQ(planByPolicy(problem, Policy::Fsdp2), literal);
  problem.memoryCapBytes = problem.minimumPeak().bytes;
  ASSERT_LT(*problem.memoryCapBytes, peakOf(problem, literal).bytes);
  std::optional<Plan> plan = planByPolicy(problem, Policy::Fsdp2);
  ASSERT_TRUE(plan);
  EXPECT_EQ(verify(problem, *plan), std::nullopt);
  EXPECT_GE(makespanNs(problem, *plan), makespanNs(problem, literal));
}

TEST(Asap, GathersEverythingAtOnceIfThereIsRoom) {
  Problem problem = makeRootAndBlocks();
  Decisions decisions = decideByPolicy(problem, Policy::Asap);
  for (const Decisions::Gathers &gathers : decisions.gathers)
    EXPECT_EQ(gathers.gate, 0u);
  // The root is used again at once, so that it costs nothing to keep.
  EXPECT_EQ(decisions.kept, (std::vector<uint8_t>{0, 0, 0, 0, 1, 0, 0, 0}));
}

// Each gather of a block takes 21 ns and operations take 100: launched one operation ahead.
TEST(XlaLatencyHiding, LaunchesAsLateAsHides) {
  Problem problem = makeRootAndBlocks();
  Decisions decisions = decideAs(problem, Peer::XlaLatencyHiding);
  ASSERT_EQ(decisions.gathers.size(), 7u);
  std::vector<uint32_t> gates;
  for (const Decisions::Gathers &gathers : decisions.gathers)
    gates.push_back(gathers.gate);
  EXPECT_EQ(gates, (std::vector<uint32_t>{0, 0, 2, 4, 8, 10, 12}));
  // At 150 ns two operations ahead, and the lane does one after the other: block 2's backward by
  // 900 (gate 7), with 1's by 1100 from 950 on (9).
  problem.meshes[0].gatherCost = {150, 0};
  decisions = decideAs(problem, Peer::XlaLatencyHiding);
  EXPECT_EQ(decisions.gathers[4].gate, 7u);
  EXPECT_EQ(decisions.gathers[5].gate, 9u);
}

// It expects each kept block to add its 20 bytes to the peak, which may be nine tenths of the cap.
TEST(DeepCompile, KeepsWithinNineTenths) {
  Problem problem = makeRootAndBlocks();
  int64_t minimum = problem.minimumPeak().bytes;
  auto numKept = [&](int64_t cap) {
    problem.memoryCapBytes = cap;
    std::vector<uint8_t> kept = decideAs(problem, Peer::DeepCompile).kept;
    return std::count(kept.begin(), kept.end(), 1);
  };
  int64_t forTwo = minimum + 40;
  EXPECT_EQ(numKept(minimum), 1); // the root, for free
  EXPECT_EQ(numKept((forTwo / 9 + 1) * 10), 3);
  EXPECT_EQ(numKept(minimum * 10), 4);
  EXPECT_EQ(decideAs(problem, Peer::DeepCompile).memoryCapBytes, minimum * 9);
  problem.memoryCapBytes.reset();
  EXPECT_EQ(decideAs(problem, Peer::DeepCompile).memoryCapBytes, std::nullopt);
}

TEST(Inductor, MayAddAGibibyte) {
  Problem problem = makeRootAndBlocks();
  EXPECT_EQ(decideAs(problem, Peer::Inductor).memoryCapBytes,
            problem.minimumPeak().bytes + (int64_t(1) << 30));
}

TEST(Policies, HaveNames) {
  EXPECT_EQ(getName(Policy::Fsdp2), "fsdp2");
  EXPECT_EQ(getName(Policy::Asap), "asap");
  EXPECT_EQ(getName(Peer::XlaLatencyHiding), "xla-lhs");
  EXPECT_EQ(getName(Peer::DeepCompile), "deepcompile");
  EXPECT_EQ(getName(Peer::Inductor), "inductor");
}
