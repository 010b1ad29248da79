//===- PlanTest.cpp - What plans are refused, and what they hold ----------===//

#include "fsdp/Schedule/Plan.h"

#include <gtest/gtest.h>

using namespace fsdp::schedule;

namespace {

/// Groups a (100 bytes) and b (40): forward a (operation 0) and b (1), backward b (2) and a (3),
/// updates of a (4) and b (5). Gradients shrink to half. 10 bytes live, 3 of them carried.
Problem makeTwoGroups() {
  Problem problem;
  problem.operations.assign(6, {100, 10, 3});
  problem.operations[0].carriedBytes = 0;
  problem.groups = {{"a", 100}, {"b", 40}};
  problem.uses = {{0, 0, 0}, {1, 1, 1}, {1, 2, 2}, {0, 3, 3}};
  problem.reductions = {{1, 3, 5, 40, 20}, {0, 4, 4, 100, 50}};
  return problem;
}

Plan makePlan() {
  Plan plan;
  plan.kept = {0, 0, 1, 0};
  plan.gathers = {{{0}, 0}, {{1}, 1}, {{3}, 3}};
  plan.reductions = {{{0}, 3, 4}, {{1}, 4, 4}};
  return plan;
}

std::string wrongAfter(void (*change)(Problem &, Plan &)) {
  Problem problem = makeTwoGroups();
  Plan plan = makePlan();
  change(problem, plan);
  EXPECT_EQ(problem.check(), std::nullopt);
  return verify(problem, plan).value_or("nothing");
}

} // namespace

TEST(Verify, AcceptsAPlan) { EXPECT_EQ(verify(makeTwoGroups(), makePlan()), std::nullopt); }

TEST(Verify, ChecksWhatIsKept) {
  EXPECT_EQ(wrongAfter([](Problem &, Plan &plan) { plan.kept.pop_back(); }),
            "the plan says of 3 uses whether they are kept, the problem has 4");
  EXPECT_EQ(wrongAfter([](Problem &, Plan &plan) { plan.kept[1] = 1; }),
            "use 1 of group 'b' is kept, although it is the first of its group");
  EXPECT_EQ(wrongAfter([](Problem &problem, Plan &) { problem.groups[1].keep = KeepRule::Never; }),
            "use 2 of group 'b' is kept, although the group may not be");
  EXPECT_EQ(wrongAfter([](Problem &problem, Plan &) { problem.groups[0].keep = KeepRule::Always; }),
            "use 3 of group 'a' is not kept, although the group must be");
}

TEST(Verify, ChecksTransports) {
  EXPECT_EQ(wrongAfter([](Problem &, Plan &plan) { plan.gathers[2].byCopyEngine = true; }),
            "use 3 of group 'a' is gathered by copy engines, which it may not be");
  auto withCopyEngines = [](Problem &problem, Plan &plan) {
    problem.meshes[0].copyEngineCost = {1, 1};
    plan.gathers[2].byCopyEngine = true;
  };
  EXPECT_EQ(wrongAfter(withCopyEngines), "nothing");
  EXPECT_EQ(wrongAfter([](Problem &problem, Plan &plan) {
              problem.meshes[0].copyEngineCost = {1, 1};
              problem.groups[0].chunks = {{2, 10, 0, {}}};
              plan.chunked = {0, 0, 0, 1};
              plan.gathers[2].byCopyEngine = true;
            }),
            "use 3 of group 'a' is gathered by copy engines, which it may not be");
  EXPECT_EQ(wrongAfter([](Problem &problem, Plan &plan) {
              problem.meshes[0].copyEngineCost = {1, 1};
              problem.meshes[0].copyEngineOnly = true;
            }),
            "use 0 of group 'a' is gathered by kernels, although it must be by copy engines");
}

TEST(Verify, ChecksChunks) {
  EXPECT_EQ(wrongAfter([](Problem &, Plan &plan) { plan.chunked = {0, 0, 0}; }),
            "the plan says of 3 uses whether they are gathered from chunks, the problem has 4");
  EXPECT_EQ(wrongAfter([](Problem &, Plan &plan) { plan.chunked = {0, 0, 0, 1}; }),
            "use 3 of group 'a' is gathered from chunk 1, the group has 0");
  auto withChunks = [](auto change) {
    Problem problem = makeTwoGroups();
    problem.groups[0].chunks = {{2, 25, 1, {}}, {2, 25, 1, {}, /*isOnHost=*/true}};
    problem.groups[1].chunks = {{2, 10, 1, {}}};
    Plan plan = makePlan();
    change(problem, plan);
    return verify(problem, plan).value_or("nothing");
  };
  EXPECT_EQ(withChunks([](Problem &, Plan &plan) { plan.chunked = {0, 0, 0, 1}; }), "nothing");
  EXPECT_EQ(withChunks([](Problem &, Plan &plan) { plan.chunked = {1, 0, 0, 0}; }),
            "use 0 of group 'a' is gathered from chunks, although it is the first of its group");
  EXPECT_EQ(withChunks([](Problem &, Plan &plan) { plan.chunked = {0, 0, 1, 0}; }),
            "use 2 of group 'b' is kept and gathered from chunks");
  EXPECT_EQ(withChunks([](Problem &, Plan &plan) {
              plan.kept[2] = 0;
              plan.gathers = {{{0}, 0}, {{1}, 1}, {{2, 3}, 2}};
              plan.chunked = {0, 0, 0, 1};
            }),
            "gather bucket 2 gathers uses from chunks 0 and 1 (0: from all ranks)");
  // a's chunk lies beside b's copy.
  EXPECT_EQ(withChunks([](Problem &problem, Plan &plan) {
              plan.chunked = {0, 0, 0, 1};
              problem.memoryCapBytes = 194;
            }),
            "the plan needs 195 bytes at operation 3, expected at most 194");
  // On the host it does not, but it has to be there before its gather.
  EXPECT_EQ(withChunks([](Problem &problem, Plan &plan) {
              plan.chunked = {0, 0, 0, 2};
              problem.memoryCapBytes = 194;
            }),
            "nothing");
  EXPECT_EQ(withChunks([](Problem &problem, Plan &plan) {
              plan.chunked = {0, 0, 0, 2};
              problem.uses[0].storedBy = 3;
            }),
            "use 3 of group 'a' is gathered at position 3, while its chunk is stored on the host "
            "until operation 3");
}

TEST(Verify, ChecksGathers) {
  EXPECT_EQ(wrongAfter([](Problem &, Plan &plan) { plan.gathers[1].uses.clear(); }),
            "gather bucket 1 is empty");
  EXPECT_EQ(wrongAfter([](Problem &, Plan &plan) { plan.gathers[2].launch = 0; }),
            "gather bucket 2 is launched at position 0, before the one ahead of it on its lane at "
            "1");
  EXPECT_EQ(wrongAfter([](Problem &, Plan &plan) { plan.gathers[2].uses = {4}; }),
            "gather bucket 2 has use 4, the problem has 4");
  EXPECT_EQ(wrongAfter([](Problem &, Plan &plan) { plan.kept[3] = 1; }),
            "use 3 of group 'a' is kept and gathered");
  EXPECT_EQ(wrongAfter([](Problem &, Plan &plan) { plan.gathers[1].uses = {0, 1}; }),
            "use 0 of group 'a' is gathered twice, in buckets 0 and 1");
  EXPECT_EQ(wrongAfter([](Problem &, Plan &plan) { plan.gathers[0].uses = {1, 0}; }),
            "gather bucket 0 has use 0 of group 'a' behind use 1");
  EXPECT_EQ(wrongAfter([](Problem &, Plan &plan) { plan.gathers[2].launch = 4; }),
            "use 3 of group 'a' begins at operation 3, before its gather is launched at position "
            "4");
  EXPECT_EQ(wrongAfter([](Problem &, Plan &plan) { plan.gathers = {{{0, 3}, 0}, {{1}, 1}}; }),
            "use 3 of group 'a' is gathered at position 0, while the group's copy is used until "
            "operation 0");
  EXPECT_EQ(wrongAfter([](Problem &, Plan &plan) { plan.gathers.pop_back(); }),
            "use 3 of group 'a' is neither kept nor gathered");
}

TEST(Verify, ChecksReductions) {
  EXPECT_EQ(wrongAfter([](Problem &, Plan &plan) { plan.reductions[1].reductions.clear(); }),
            "reduction bucket 1 is empty");
  EXPECT_EQ(
      wrongAfter([](Problem &, Plan &plan) { std::swap(plan.reductions[0], plan.reductions[1]); }),
      "reduction bucket 1 is launched at position 3, before the one ahead of it on its lane "
      "at 4");
  EXPECT_EQ(wrongAfter([](Problem &, Plan &plan) { plan.reductions[0].wait = 5; }),
            "reduction bucket 1 is waited for at position 4, before the one ahead of it on its "
            "lane at 5");
  EXPECT_EQ(wrongAfter([](Problem &, Plan &plan) { plan.reductions[0].wait = 2; }),
            "reduction bucket 0 is waited for at position 2, before its launch at 3");
  EXPECT_EQ(wrongAfter([](Problem &, Plan &plan) { plan.reductions[0].reductions = {2}; }),
            "reduction bucket 0 has reduction 2, the problem has 2");
  EXPECT_EQ(wrongAfter([](Problem &, Plan &plan) { plan.reductions[1].reductions = {0, 1}; }),
            "reduction 0 of group 'b' happens twice, in buckets 0 and 1");
  EXPECT_EQ(wrongAfter([](Problem &, Plan &plan) { plan.reductions = {{{1, 0}, 4, 4}}; }),
            "reduction bucket 0 has reduction 0 of group 'b' behind reduction 1");
  EXPECT_EQ(wrongAfter([](Problem &, Plan &plan) { plan.reductions[0].launch = 2; }),
            "reduction 0 of group 'b' is launched at position 2, before it is ready at 3");
  EXPECT_EQ(wrongAfter([](Problem &, Plan &plan) { plan.reductions[1].wait = 5; }),
            "reduction 1 of group 'a' is updated by operation 4, before it is waited for at "
            "position 5");
  EXPECT_EQ(wrongAfter([](Problem &, Plan &plan) { plan.reductions.pop_back(); }),
            "reduction 1 of group 'a' is missing");
}

// operation 0:  10 + a 100 = 110                operation 1:  10 + b 40 = 50
// operation 2:  10 + b 40  = 50
// position 3:   3 + input b 40 + shard b 20 = 63
// operation 3:  10 + a 100 + input b 40 + shard b 20 = 170
// position 4:   b waited; 3 + shard b 20 + input a 100 + shard a 50 = 173
// operation 4:  10 + shard b 20 + shard a 50 = 80
TEST(Peak, CountsAsTheProblemSays) {
  Peak peak = peakOf(makeTwoGroups(), makePlan());
  EXPECT_EQ(peak.bytes, 173);
  EXPECT_EQ(peak.operation, 4u);
  Problem problem = makeTwoGroups();
  problem.operations[4].carriedBytes = 0;
  EXPECT_EQ(peakOf(problem, makePlan()).bytes, 170);
  EXPECT_EQ(peakOf(problem, makePlan()).operation, 3u);
  // A gather one operation earlier: operation 2 has 10 + b 40 + a 100 = 150, which is less.
  Plan plan = makePlan();
  plan.gathers[2].launch = 2;
  EXPECT_EQ(peakOf(problem, plan).bytes, 170);
  // Waited for at its launch, b's input is gone before operation 3.
  plan.reductions[0].wait = 3;
  EXPECT_EQ(peakOf(problem, plan).bytes, 170); // position 4: 20 + 100 + 50
  // Without a's shard, position 3 is the peak: 3 + a 100 + input b 40 + shard b 20.
  problem.reductions[1].outputBytes = 0;
  EXPECT_EQ(peakOf(problem, plan).bytes, 163);
  EXPECT_EQ(peakOf(problem, plan).operation, 3u);
}

TEST(Verify, HoldsTheCap) {
  Problem problem = makeTwoGroups();
  problem.memoryCapBytes = 173;
  EXPECT_EQ(verify(problem, makePlan()), std::nullopt);
  problem.memoryCapBytes = 172;
  EXPECT_EQ(
      verify(problem, makePlan()),
      "the plan needs 173 bytes at the launch of a reduction before operation 4, expected at most "
      "172");
}
