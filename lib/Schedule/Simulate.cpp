//===- Simulate.cpp - How long a plan takes -------------------------------===//

#include "fsdp/Schedule/Simulate.h"

#include "Replay.h"

using namespace fsdp::schedule;

Timeline fsdp::schedule::simulate(const Problem &problem, const Plan &plan) {
  Timeline timeline;
  timeline.operations.resize(problem.operations.size());
  timeline.gathers.resize(plan.gathers.size());
  timeline.reductions.resize(plan.reductions.size());
  timeline.exposedGatherNs.resize(plan.gathers.size());
  timeline.exposedReductionNs.resize(plan.reductions.size());
  timeline.makespanNs = replay(problem, plan, NominalDurations{problem}, &timeline);
  return timeline;
}

double fsdp::schedule::makespanNs(const Problem &problem, const Plan &plan) {
  return replay(problem, plan, NominalDurations{problem});
}
