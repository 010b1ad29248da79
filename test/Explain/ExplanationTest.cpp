//===- ExplanationTest.cpp - Reasons that a plan shows --------------------===//

#include "TwoLayers.h"

#include "fsdp/Explain/Explanation.h"

#include <gtest/gtest.h>

using namespace fsdp::explain;
using namespace fsdp::explain::test;
using namespace fsdp::schedule;

static Explanation explainTwoLayers(const Problem &problem, const Plan &plan) {
  return explain(problem, plan, makeTwoLayersView(problem, plan));
}

TEST(Explanation, LaunchedAtTheStartOrWithItsGradients) {
  Problem problem = makeTwoLayers();
  Explanation explanation = explainTwoLayers(problem, makeTwoLayersPlan());
  EXPECT_EQ(explanation.launches[0].by, HeldBy::Start);
  EXPECT_EQ(explanation.launches[3].by, HeldBy::Gradients);
  EXPECT_EQ(explanation.launches[4].by, HeldBy::Gradients);
}

/// The second gather would begin no earlier, wherever it is launched.
TEST(Explanation, HeldBackByTheLane) {
  Problem problem = makeTwoLayers();
  Explanation explanation = explainTwoLayers(problem, makeTwoLayersPlan());
  EXPECT_EQ(explanation.launches[1].by, HeldBy::Lane);
  EXPECT_EQ(explanation.launches[1].other, 0u);
}

/// On GPUs the gather of layers.0 is launched behind the all-reduce of layers.1, which starts
/// at 54.
TEST(Explanation, HeldBackByTheOrderOfLaunches) {
  Problem problem = makeTwoLayers();
  problem.onGpus = true;
  problem.meshes[0].acrossCost = {1, .1};
  problem.uses[2] = {0, 4, 4};
  Plan plan = makeTwoLayersPlan();
  plan.gathers[2].launch = 3;
  ScheduleView view = buildView(problem, plan, simulate(problem, plan), makeTwoLayersLabels());
  Explanation explanation = explain(problem, plan, view);
  EXPECT_EQ(explanation.launches[2].by, HeldBy::Order);
  EXPECT_EQ(describe(explanation.launches[2], view), "NCCL starts it behind all_reduce layers.1");
  problem.onGpus = false;
  view = buildView(problem, plan, simulate(problem, plan), makeTwoLayersLabels());
  EXPECT_NE(explain(problem, plan, view).launches[2].by, HeldBy::Order);
}

/// layers.0 does not fit beside the forward of layers.1, which holds 400 of 450 bytes.
TEST(Explanation, HeldBackByMemory) {
  Problem problem = makeTwoLayers();
  problem.operations[2].liveBytes = 250;
  problem.memoryCapBytes = 450;
  Explanation explanation = explainTwoLayers(problem, makeTwoLayersPlan());
  EXPECT_EQ(explanation.launches[2].by, HeldBy::Memory);
  ASSERT_TRUE(explanation.launches[2].tightest);
  EXPECT_EQ(explanation.launches[2].tightest->operation, 1u);
  EXPECT_EQ(explanation.launches[2].tightest->bytes, 50);
  EXPECT_EQ(explanation.launches[2].earliest, 2u);
}

/// Without a cap it could be launched as soon as its own copy is released.
TEST(Explanation, HeldBackByNothing) {
  Problem problem = makeTwoLayers();
  Explanation explanation = explainTwoLayers(problem, makeTwoLayersPlan());
  EXPECT_EQ(explanation.launches[2].by, HeldBy::Choice);
  EXPECT_EQ(explanation.launches[2].earliest, 1u);
  Plan plan = makeTwoLayersPlan();
  plan.gathers[2].launch = 1;
  Timeline timeline = makeTwoLayersTimeline();
  timeline.gathers[2] = {17, 24};
  ScheduleView view = buildView(problem, plan, timeline, makeTwoLayersLabels());
  EXPECT_EQ(explain(problem, plan, view).launches[2].by, HeldBy::Release);
}

TEST(Explanation, WhyACopyIsGatheredAgain) {
  Problem problem = makeTwoLayers();
  problem.memoryCapBytes = 500;
  Explanation explanation = explainTwoLayers(problem, makeTwoLayersPlan());
  ASSERT_EQ(explanation.keeps.size(), 1u);
  const KeepReason &reason = explanation.keeps[0];
  EXPECT_FALSE(reason.kept);
  EXPECT_EQ(reason.gapNs, 30);
  EXPECT_EQ(reason.laneNs, 7);
  // From its launch on it is there anyway: only the forward of layers.1 would hold more.
  ASSERT_TRUE(reason.tightest);
  EXPECT_EQ(reason.tightest->operation, 1u);
  EXPECT_EQ(reason.tightest->bytes, 100);
}

TEST(Explanation, WhatKeepingLeaves) {
  Problem problem = makeTwoLayers();
  problem.memoryCapBytes = 600;
  Plan plan = makeTwoLayersPlan();
  plan.kept[2] = 1;
  plan.gathers.pop_back();
  Timeline timeline = makeTwoLayersTimeline();
  timeline.gathers.pop_back();
  timeline.exposedGatherNs.pop_back();
  ScheduleView view = buildView(problem, plan, timeline, makeTwoLayersLabels());
  EXPECT_EQ(view.liveBytes[1], 500);
  Explanation explanation = explain(problem, plan, view);
  ASSERT_EQ(explanation.keeps.size(), 1u);
  EXPECT_TRUE(explanation.keeps[0].kept);
  ASSERT_TRUE(explanation.keeps[0].tightest);
  EXPECT_EQ(explanation.keeps[0].tightest->operation, 1u);
  EXPECT_EQ(explanation.keeps[0].tightest->bytes, 100);
  EXPECT_EQ(describe(explanation.keeps[0], view),
            "kept for 30.0 ns, saves 7.00 ns of gathering; 100 B left at the peak");
}

TEST(Explanation, MergingSavesLatency) {
  Problem problem = makeTwoLayers();
  Plan plan = makeTwoLayersPlan();
  plan.gathers = {{{0, 1}, 0}, {{2}, 2}};
  Timeline timeline = makeTwoLayersTimeline();
  timeline.gathers = {{0, 12}, {27, 34}};
  timeline.exposedGatherNs = {12, 0};
  ScheduleView view = buildView(problem, plan, timeline, makeTwoLayersLabels());
  EXPECT_EQ(describe(view.collectives[0]), "all_gather layers.0 + layers.1");
  EXPECT_EQ(view.collectives[0].sizeBytes, 200);
  EXPECT_EQ(explain(problem, plan, view).launches[0].latencySavedNs, 2);
}
