//===- ScheduleViewTest.cpp - What a schedule's view says of it -----------===//

#include "TwoLayers.h"

#include "fsdp/Explain/Blocks.h"

#include <gtest/gtest.h>

using namespace fsdp::explain;
using namespace fsdp::explain::test;
using namespace fsdp::schedule;

static int64_t get(const MemoryBytes &bytes, MemoryCategory category) {
  return bytes[static_cast<unsigned>(category)];
}

/// The last sample that begins at or before a time.
static MemoryBytes memoryAt(const ScheduleView &view, double timeNs) {
  MemoryBytes bytes = {};
  for (const MemorySample &sample : view.memory)
    if (sample.timeNs <= timeNs)
      bytes = sample.bytes;
  return bytes;
}

TEST(ScheduleView, NamesEachCollectiveAndItsPlace) {
  Problem problem = makeTwoLayers();
  ScheduleView view = makeTwoLayersView(problem, makeTwoLayersPlan());
  ASSERT_EQ(view.collectives.size(), 5u);
  EXPECT_EQ(describe(view.collectives[0]), "all_gather layers.0");
  EXPECT_EQ(view.collectives[2].part, StepPart::Backward);
  EXPECT_EQ(view.collectives[2].wait, 3u);
  EXPECT_EQ(describe(view.collectives[4]), "reduce_scatter layers.0");
  EXPECT_EQ(view.collectives[4].sizeBytes, 100);
}

TEST(ScheduleView, NamesFewGroupsAndTheEndsOfMany) {
  EXPECT_EQ(joinNames({"a"}), "a");
  EXPECT_EQ(joinNames({"a", "b", "c"}), "a + b + c");
  EXPECT_EQ(joinNames({"a", "b", "c", "d"}), "a ... d (4 groups)");
}

TEST(ScheduleView, SplitsCollectivesIntoHiddenAndExposed) {
  Problem problem = makeTwoLayers();
  ScheduleView view = makeTwoLayersView(problem, makeTwoLayersPlan());
  EXPECT_EQ(view.collectives[0].hiddenNs(), 0);
  EXPECT_EQ(view.collectives[4].hiddenNs(), 5);
  EXPECT_EQ(view.getExposedNs(CollectiveKind::AllGather), 7);
  EXPECT_EQ(view.getExposedNs(CollectiveKind::ReduceScatter), 2);
  EXPECT_EQ(view.getComputeNs(), 70);
}

/// Collectives take the time of all lanes, that over replicas among them.
TEST(ScheduleView, CountsTheWayOverReplicas) {
  Problem problem = makeTwoLayers();
  Plan plan = makeTwoLayersPlan();
  EXPECT_EQ(makeTwoLayersView(problem, plan).getCollectiveNs(), 3 * 7 + 2 * 7);
  problem.meshes[0].acrossCost = CollectiveCost{1, 0.02};
  Timeline timeline = makeTwoLayersTimeline();
  timeline.across = {Interval{54, 56}, Interval{74, 76}};
  timeline.exposedAcrossNs = {0, 2};
  ScheduleView view = buildView(problem, plan, timeline, makeTwoLayersLabels());
  EXPECT_EQ(view.getCollectiveNs(), 3 * 7 + 2 * 7 + 2 * 2);
  EXPECT_EQ(view.getExposedAcrossNs(), 2);
}

/// What is on the host is said only where something is.
TEST(ScheduleView, SaysWhatIsOnTheHost) {
  Problem problem = makeTwoLayers();
  ScheduleView view = makeTwoLayersView(problem, makeTwoLayersPlan());
  EXPECT_EQ(describeHostCopies(view), "");
  view.hostCopies = {{"layers.0", 1024, 4, 5, Interval{0, 10}, {10, 20}, 3}};
  EXPECT_EQ(describeHostCopies(view), "1.00 KiB, for whose copies computation waits 3.00 ns");
}

/// A launch is reached when the operation before it has ended, or the reduction that is waited for
/// at the same position.
TEST(ScheduleView, KnowsWhenALaunchIsReached) {
  Problem problem = makeTwoLayers();
  Plan plan = makeTwoLayersPlan();
  ScheduleView view = makeTwoLayersView(problem, plan);
  EXPECT_EQ(view.collectives[1].issueNs, 0);
  EXPECT_EQ(view.collectives[2].issueNs, 27);
  plan.reductions = {{{0}, 3, 3}, {{1}, 4, 5}};
  plan.gathers[2].launch = 3;
  Timeline timeline = makeTwoLayersTimeline();
  timeline.reductions[0] = {47, 54};
  view = buildView(problem, plan, timeline, makeTwoLayersLabels());
  EXPECT_EQ(view.collectives[2].issueNs, 54);
}

TEST(ScheduleView, CountsMemoryWhileOperationsRun) {
  Problem problem = makeTwoLayers();
  ScheduleView view = makeTwoLayersView(problem, makeTwoLayersPlan());
  // Both copies from the start; layers.0's goes after its forward and comes again at position 2.
  // Gradients of 100 bytes until their wait, shards of 50 until their update.
  EXPECT_EQ(view.liveBytes, (std::vector<int64_t>{400, 400, 500, 450, 260, 110}));
  EXPECT_EQ(view.getPeakBytes(), 500);
  EXPECT_EQ(view.peakOperation, 2u);
  EXPECT_EQ(view.memory[view.peakSample].timeNs, 27);
}

TEST(ScheduleView, SplitsMemoryByCategory) {
  Problem problem = makeTwoLayers();
  ScheduleView view = makeTwoLayersView(problem, makeTwoLayersPlan());
  MemoryBytes bytes = memoryAt(view, 50);
  EXPECT_EQ(get(bytes, MemoryCategory::Shards), 60);
  EXPECT_EQ(get(bytes, MemoryCategory::Activations), 140);
  EXPECT_EQ(get(bytes, MemoryCategory::Gathered), 100);
  EXPECT_EQ(get(bytes, MemoryCategory::Gradients), 150);
}

/// While computation waits only what it carries over is live.
TEST(ScheduleView, HoldsLessWhileComputationWaits) {
  Problem problem = makeTwoLayers();
  ScheduleView view = makeTwoLayersView(problem, makeTwoLayersPlan());
  EXPECT_EQ(getTotal(memoryAt(view, 3)), 200);  // two copies, nothing carried
  EXPECT_EQ(getTotal(memoryAt(view, 73)), 210); // 60 carried, a gradient and its shard
}

/// Bytes that a label does not account for are shown as such.
TEST(ScheduleView, ShowsWhatLabelsLeaveOut) {
  Problem problem = makeTwoLayers();
  StepLabels labels = makeTwoLayersLabels();
  labels.operations[2].liveBytes = {};
  ScheduleView view = buildView(problem, makeTwoLayersPlan(), makeTwoLayersTimeline(), labels);
  EXPECT_EQ(get(memoryAt(view, 30), MemoryCategory::Other), 300);
  EXPECT_EQ(view.getPeakBytes(), 500);
}

TEST(ScheduleView, NothingHasNoPeak) {
  ScheduleView view = buildView({}, {}, {}, {});
  EXPECT_EQ(view.getPeakBytes(), 0);
  EXPECT_TRUE(findBlocks(view).empty());
}

TEST(Blocks, EndAtTheFirstNumber) {
  EXPECT_EQ(getBlockName("layers.3.attention.wq"), "layers.3");
  EXPECT_EQ(getBlockName("model.layers.12"), "model.layers.12");
  EXPECT_EQ(getBlockName("head"), "head");
  EXPECT_EQ(getBlockName("head.norm"), "head");
  EXPECT_EQ(getBlockName(""), "");
}

TEST(Blocks, JoinOperationsOfOneBlockAndPart) {
  Problem problem = makeTwoLayers();
  std::vector<Block> blocks = findBlocks(makeTwoLayersView(problem, makeTwoLayersPlan()));
  ASSERT_EQ(blocks.size(), 6u);
  EXPECT_EQ(blocks[1].name, "layers.1");
  EXPECT_EQ(blocks[2].part, StepPart::Backward);
}
