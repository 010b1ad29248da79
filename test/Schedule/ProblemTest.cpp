//===- ProblemTest.cpp - Is a problem well formed, what does it need ------===//

#include "fsdp/Schedule/Problem.h"

#include <gtest/gtest.h>

using namespace fsdp::schedule;

/// One group of 100 bytes, used by a forward and a backward operation, reduced from 100 to 50 bytes
/// and updated at the end; 10 bytes live while each operation runs.
static Problem makeSmall() {
  Problem problem;
  problem.operations.assign(3, {10, 10, 0});
  problem.groups = {{"a", 100}};
  problem.uses = {{0, 0, 0}, {0, 1, 1}};
  problem.reductions = {{0, 2, 2, 100, 50}};
  problem.meshes[0].gatherCost = problem.meshes[0].reduceCost = {5, 1};
  return problem;
}

TEST(Problem, AcceptsWhatIsWellFormed) { EXPECT_EQ(makeSmall().check(), std::nullopt); }

static std::string wrongAfter(void (*change)(Problem &)) {
  Problem problem = makeSmall();
  change(problem);
  return problem.check().value_or("nothing");
}

TEST(Problem, SaysWhatIsWrong) {
  EXPECT_EQ(wrongAfter([](Problem &p) { p.operations[1].durationNs = -1; }),
            "operation 1 takes -1.000000 ns");
  EXPECT_EQ(wrongAfter([](Problem &p) { p.operations[1].liveBytes = -1; }),
            "operation 1 has -1 live bytes");
  EXPECT_EQ(wrongAfter([](Problem &p) { p.operations[1].carriedBytes = 11; }),
            "operation 1 carries 11 bytes, expected at most the 10 that are live while it and the "
            "operation before it run");
  EXPECT_EQ(wrongAfter([](Problem &p) { p.groups[0].gatheredBytes = -5; }),
            "group 'a' has -5 bytes");
  EXPECT_EQ(wrongAfter([](Problem &p) { p.groups[0].chunks = {{2, -5, 0, {}}}; }),
            "a chunk of group 'a' has -5 bytes");
  EXPECT_EQ(wrongAfter([](Problem &p) { p.groups[0].chunks = {{2, 5, -1, {2, 3}}}; }),
            "a chunk of group 'a' takes -1.000000 ns to copy");
  EXPECT_EQ(wrongAfter([](Problem &p) { p.groups[0].chunks = {{2, 5, 1, {2, -3}}}; }),
            "a gather of chunks of group 'a' takes 2.000000 ns and -3.000000 ns per byte");
  EXPECT_EQ(wrongAfter([](Problem &p) { p.uses[0].group = 1; }),
            "group of use 0 is 1, expected less than 1");
  EXPECT_EQ(wrongAfter([](Problem &p) { p.uses[1].last = 0; }),
            "use 1 of group 'a' begins at operation 1 and ends at 0");
  EXPECT_EQ(wrongAfter([](Problem &p) { p.uses[1].last = 3; }),
            "last operation of use 1 of group 'a' is 3, expected less than 3");
  EXPECT_EQ(wrongAfter([](Problem &p) { p.uses[0] = {0, 2, 2}; }),
            "use 1 of group 'a' begins at operation 1 and stands after one that begins at 2");
  EXPECT_EQ(wrongAfter([](Problem &p) { p.uses[0].last = 1; }),
            "use 1 of group 'a' begins at operation 1, although the group's use before it ends at "
            "1");
  EXPECT_EQ(wrongAfter([](Problem &p) { p.reductions[0].update = 3; }),
            "update of reduction 0 of group 'a' is 3, expected less than 3");
  EXPECT_EQ(wrongAfter([](Problem &p) { p.reductions[0].update = 1; }),
            "reduction 0 of group 'a' is ready at position 2, after its update at operation 1");
  EXPECT_EQ(wrongAfter([](Problem &p) { p.reductions[0].outputBytes = 101; }),
            "reduction 0 of group 'a' makes 101 bytes of 100");
  EXPECT_EQ(wrongAfter([](Problem &p) { p.reductions.push_back({0, 1, 2, 4, 2}); }),
            "reduction 1 of group 'a' is ready at position 1 and stands after one that is ready at "
            "2");
  EXPECT_EQ(wrongAfter([](Problem &p) { p.meshes[0].reduceCost.nsPerByte = -1; }),
            "a reduction takes 5.000000 ns and -1.000000 ns per byte");
  EXPECT_EQ(
      wrongAfter([](Problem &p) {
        p.meshes[0].reduceCost = {5, 1};
        p.meshes[0].reduceCost.curve =
            std::make_shared<CollectiveCurve>(5, std::vector<CurvePoint>{{10, 20}, {20, 24}});
      }),
      "a reduction of 20 bytes takes 24.000000 ns, one of 10 bytes 20.000000 ns, and the line "
      "says at least 25.000000");
  EXPECT_EQ(wrongAfter([](Problem &p) { p.contention.lanes = 2.5; }),
            "contention of lanes is 2.500000, expected a factor from 1.000000 to 2.000000");
  EXPECT_EQ(
      wrongAfter([](Problem &p) { p.contention.setOfComputation(0.5); }),
      "contention of computation with gathers is 0.500000, expected a factor of at least 1.000000");
  EXPECT_EQ(wrongAfter([](Problem &p) { p.contention.copyEngines = 1.5; }),
            "contention of computation with copy engines is 1.500000, expected a factor from "
            "1.000000 to 1.000000");
  EXPECT_EQ(wrongAfter([](Problem &p) { p.contention.reductions = 1.5; }),
            "contention of computation with several collectives is 1.000000, expected a factor of "
            "at least 1.500000");
  EXPECT_EQ(wrongAfter([](Problem &p) { p.contention.computation = 0.9; }),
            "contention of collectives with computation is 0.900000, expected a factor of at least "
            "1.000000");
  EXPECT_EQ(wrongAfter([](Problem &p) { p.meshes[0].copyEngineCost = {-1, 0}; }),
            "a gather by copy engines takes -1.000000 ns and 0.000000 ns per byte");
}

TEST(Problem, FindsNeighbouringUses) {
  Problem problem = makeSmall();
  problem.groups.push_back({"b", 1});
  problem.uses = {{0, 0, 0}, {1, 0, 1}, {0, 1, 1}, {0, 2, 2}};
  EXPECT_EQ(problem.previousUses(), (std::vector<int32_t>{-1, -1, 0, 2}));
  EXPECT_EQ(problem.nextUses(), (std::vector<int32_t>{2, -1, 3, -1}));
}

TEST(Problem, CountsWhatNoPlanAvoids) {
  // 10 + copy, 10 + copy, 10 + shard.
  EXPECT_EQ(makeSmall().unavoidableBytes(), (std::vector<int64_t>{110, 110, 60}));
  Problem kept = makeSmall();
  kept.uses[1] = {0, 2, 2};
  EXPECT_EQ(kept.unavoidableBytes(), (std::vector<int64_t>{110, 10, 160}));
  kept.groups[0].keep = KeepRule::Always;
  EXPECT_EQ(kept.unavoidableBytes(), (std::vector<int64_t>{110, 110, 160}));
}

TEST(MinimumPeak, HasRoomForInputBesideOutput) {
  // Position 2: nothing carried, input 100 beside output 50.
  Problem::MinimumPeak peak = makeSmall().minimumPeak();
  EXPECT_EQ(peak.bytes, 150);
  EXPECT_EQ(peak.operation, 2u);
}

TEST(MinimumPeak, ReducesTheSmallestFirst) {
  // Both are ready at 2. Output 1 first: 10 + 20 + 1 = 31, then 1 + 10 + 10 = 21. Output 10 first
  // would reach 40.
  Problem problem;
  problem.operations.assign(3, {10, 5, 0});
  problem.groups = {{"a", 1}, {"b", 1}};
  problem.reductions = {{0, 2, 2, 10, 10}, {1, 2, 2, 20, 1}};
  ASSERT_EQ(problem.check(), std::nullopt);
  EXPECT_EQ(problem.minimumPeak().bytes, 31);
}

TEST(MinimumPeak, PutsAReductionOffWhereLessIsLive) {
  // At position 1, 10 carried + 5 + 5 = 20. At position 2: nothing carried, 5 + 5; operation 1 has
  // 10 + the input of 5.
  Problem problem;
  problem.operations = {{1, 10, 0}, {1, 10, 10}, {1, 0, 0}};
  problem.groups = {{"a", 0}};
  problem.reductions = {{0, 1, 2, 5, 5}};
  ASSERT_EQ(problem.check(), std::nullopt);
  Problem::MinimumPeak peak = problem.minimumPeak();
  EXPECT_EQ(peak.bytes, 15);
  EXPECT_EQ(peak.operation, 1u);
}
