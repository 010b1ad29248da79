//===- LeaveRoomTest.cpp - Memory that plans leave free -------------------===//

#include "fsdp/Schedule/LeaveRoom.h"
#include "RandomProblem.h"
#include "fsdp/Schedule/Policies.h"

#include <gtest/gtest.h>

using namespace fsdp::schedule;

/// Two groups of 100 bytes, used one after the other, beside 10, 50 and 10 bytes.
static Problem makeTwoGroups() {
  Problem problem;
  problem.operations = {{10, 10, 0}, {10, 50, 0}, {10, 10, 0}};
  problem.groups = {{"a", 100}, {"b", 100}};
  problem.uses = {{0, 0, 0}, {1, 2, 2}};
  problem.meshes[0].gatherCost = problem.meshes[0].reduceCost = {5, .1};
  problem.memoryCapBytes = 220;
  return problem;
}

static std::vector<int64_t> liveBytes(const Problem &problem) {
  std::vector<int64_t> bytes;
  for (const Operation &operation : problem.operations)
    bytes.push_back(operation.liveBytes);
  return bytes;
}

/// As much as is asked for, or as the cap leaves: 220 - 110 at the first operation.
TEST(LeaveRoom, TakesWhatTheCapLeaves) {
  Problem problem = makeTwoGroups();
  EXPECT_TRUE(leaveRoom(problem, std::vector<int64_t>{20, 20, 200}));
  EXPECT_EQ(liveBytes(problem), (std::vector<int64_t>{30, 70, 120}));
}

/// With 71 bytes of room the second group is no more gathered beside the second operation.
TEST(LeaveRoom, DelaysWhatHasNoRoom) {
  Problem problem = makeTwoGroups();
  ASSERT_TRUE(leaveRoom(problem, std::vector<int64_t>(3, 70)));
  EXPECT_EQ(planByPolicy(problem, Policy::Asap)->gathers[1].launch, 1u);
  problem = makeTwoGroups();
  ASSERT_TRUE(leaveRoom(problem, std::vector<int64_t>(3, 71)));
  EXPECT_EQ(planByPolicy(problem, Policy::Asap)->gathers[1].launch, 2u);
}

/// However much room is asked for, a plan is left, and is one of the problem as it was.
TEST(LeaveRoom, PlansAreThoseOfTheProblem) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Problem problem = makeRandomProblem(seed);
    int64_t leastBytes = problem.minimumPeak().bytes;
    for (int64_t capBytes : {leastBytes, leastBytes + leastBytes / 10}) {
      problem.memoryCapBytes = capBytes;
      Problem tight = problem;
      leaveRoom(tight, std::vector<int64_t>(problem.operations.size(), capBytes));
      std::optional<Plan> plan = planByPolicy(tight, Policy::Asap);
      ASSERT_TRUE(plan) << seed;
      EXPECT_EQ(verify(problem, *plan), std::nullopt) << seed;
    }
  }
}
