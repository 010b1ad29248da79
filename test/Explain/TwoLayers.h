//===- TwoLayers.h - A step that can be worked out by hand -------*- C++ -*-===//
//
//   ns       0      7      14 17     27   34      47   54     67   72 74   79
//   compute  |wait  | fwd a   | fwd b| bwd b      | bwd a      |up b|w |up a|
//   gather   | a    | b    |         | a  |
//   reduce                                        | b  |       | a     |
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_EXPLAIN_TWOLAYERS_H
#define FSDP_TEST_EXPLAIN_TWOLAYERS_H

#include "fsdp/Explain/ScheduleView.h"

namespace fsdp::explain::test {

inline schedule::Problem makeTwoLayers() {
  schedule::Problem problem;
  problem.operations = {{10, 200, 0},   {10, 300, 150}, {20, 300, 250},
                        {20, 200, 100}, {5, 60, 60},    {5, 60, 60}};
  problem.groups = {{"layers.0", 100}, {"layers.1", 100}};
  problem.uses = {{0, 0, 0}, {1, 1, 2}, {0, 3, 3}};
  problem.reductions = {{1, 3, 4, 100, 50}, {0, 4, 5, 100, 50}};
  problem.meshes[0].gatherCost = problem.meshes[0].reduceCost = {2, 0.05};
  return problem;
}

/// layers.0 is gathered again; every collective is launched as early as its turn allows.
inline schedule::Plan makeTwoLayersPlan() {
  schedule::Plan plan;
  plan.kept = {0, 0, 0};
  plan.gathers = {{{0}, 0}, {{1}, 0}, {{2}, 2}};
  plan.reductions = {{{0}, 3, 4}, {{1}, 4, 5}};
  return plan;
}

inline schedule::Timeline makeTwoLayersTimeline() {
  schedule::Timeline timeline;
  timeline.makespanNs = 79;
  timeline.operations = {{7, 17}, {17, 27}, {27, 47}, {47, 67}, {67, 72}, {74, 79}};
  timeline.gathers = {{0, 7}, {7, 14}, {27, 34}};
  timeline.reductions = {{47, 54}, {67, 74}};
  timeline.exposedGatherNs = {7, 0, 0};
  timeline.exposedReductionNs = {0, 2};
  timeline.across.resize(2);
  timeline.exposedAcrossNs.resize(2);
  return timeline;
}

inline StepLabels makeTwoLayersLabels() {
  StepLabels labels;
  labels.model = "tiny";
  labels.facts = {{"mesh", "dp = 2"}};
  labels.gatherCostOrigin = labels.reduceCostOrigin = "roofline";
  static constexpr const char *modules[] = {"layers.0.up", "layers.1.up", "layers.1.up",
                                            "layers.0.up", "layers.1",    "layers.0"};
  const schedule::Problem problem = makeTwoLayers();
  for (unsigned i = 0; i < 6; ++i) {
    StepPart part = i < 2 ? StepPart::Forward : i < 4 ? StepPart::Backward : StepPart::Update;
    OperationLabel label = {
        i < 4 ? "mm.default" : "update", modules[i], part, "roofline", i >= 4, {}};
    label.liveBytes[unsigned(MemoryCategory::Shards)] = 60;
    label.liveBytes[unsigned(MemoryCategory::Activations)] = problem.operations[i].liveBytes - 60;
    labels.operations.push_back(label);
  }
  return labels;
}

inline ScheduleView makeTwoLayersView(const schedule::Problem &problem,
                                      const schedule::Plan &plan) {
  return buildView(problem, plan, makeTwoLayersTimeline(), makeTwoLayersLabels());
}

} // namespace fsdp::explain::test

#endif // FSDP_TEST_EXPLAIN_TWOLAYERS_H
