//===- Simulate.cpp - The timeline of a plan ------------------------------===//

#include "fsdp/Schedule/Simulate.h"

#include "Model/LiveBytes.h"
#include "Replay.h"

using namespace fsdp::schedule;

/// Members of a bucket complete together, so the bucket's first update waits for all of them.
std::vector<AcrossWait> fsdp::schedule::findAcrossWaits(const Problem &problem, const Plan &plan) {
  std::vector<AcrossWait> waits;
  for (uint32_t index = 0; index < plan.reductions.size(); ++index) {
    const ReductionBucket &bucket = plan.reductions[index];
    if (!goesAcross(problem, bucket))
      continue;
    uint32_t update = UINT32_MAX;
    for (uint32_t reduction : bucket.reductions)
      update = std::min(update, problem.reductions[reduction].update);
    waits.push_back({update, index});
  }
  std::ranges::stable_sort(waits, {}, &AcrossWait::update);
  return waits;
}

Timeline fsdp::schedule::simulate(const Problem &problem, const Plan &plan) {
  Timeline timeline;
  timeline.operations.resize(problem.operations.size());
  timeline.gathers.resize(plan.gathers.size());
  timeline.reductions.resize(plan.reductions.size());
  timeline.exposedGatherNs.resize(plan.gathers.size());
  timeline.exposedReductionNs.resize(plan.reductions.size());
  timeline.across.resize(plan.reductions.size());
  timeline.exposedAcrossNs.resize(plan.reductions.size());
  const Problem changed = withChunks(problem, plan.chunked);
  timeline.makespanNs = replay(changed, plan, NominalDurations{changed, plan.chunked}, &timeline);
  return timeline;
}

double fsdp::schedule::makespanNs(const Problem &problem, const Plan &plan) {
  const Problem changed = withChunks(problem, plan.chunked);
  return replay(changed, plan, NominalDurations{changed, plan.chunked});
}
