//===- Replay.h - A plan on the streams -------------------------*- C++ -*-===//

#ifndef FSDP_LIB_SCHEDULE_REPLAY_H
#define FSDP_LIB_SCHEDULE_REPLAY_H

#include "Streams.h"

namespace fsdp::schedule {

/// The problem's durations, without contention or jitter. `chunked` says by use which uses the plan
/// gathers from chunks.
struct NominalDurations {
  const Problem &problem;
  std::span<const uint8_t> chunked;
  double ofOperation(uint32_t index) const { return problem.operations[index].durationNs; }
  CollectiveDuration ofGathers(const GatherBucket &bucket) const {
    return problem.ofGather(bucket.uses, chunked, bucket.byCopyEngine);
  }
  CollectiveDuration ofReductions(const ReductionBucket &bucket) const {
    return problem.ofReduction(bucket.reductions);
  }
  CollectiveDuration ofAcross(const ReductionBucket &bucket) const {
    return problem.ofAcross(bucket.reductions);
  }
};

/// A wait for an all-reduce over replicas.
struct AcrossWait {
  uint32_t update, bucket;
};
inline bool goesAcross(const Problem &problem, const ReductionBucket &bucket) {
  return problem.meshOfReduction(bucket.reductions.front()).acrossCost.has_value();
}
std::vector<AcrossWait> findAcrossWaits(const Problem &problem, const Plan &plan);

/// Issues the plan in order and returns its makespan. `durations` is called once for each operation
/// and collective, in the order of issue. If it has `ofOperations(first, end)`, it is called once
/// for each run of operations between launches and waits, and the timeline has no operations. Fills
/// `timeline` unless it is null; this is slower.
template <typename Durations>
double replay(const Problem &problem, const Plan &plan, Durations &&durations,
              Timeline *timeline = nullptr) {
  const uint32_t numOperations = problem.operations.size(), numUses = problem.uses.size();
  const uint32_t numGathers = plan.gathers.size(), numReductions = plan.reductions.size();
  const uint32_t reductionLane = problem.oneLane || plan.shareLane ? 0 : 1;
  std::vector<uint32_t> bucketOfUse(numUses, numGathers);
  for (uint32_t i = 0; i < numGathers; ++i)
    for (uint32_t use : plan.gathers[i].uses)
      bucketOfUse[use] = i;
  std::vector<Ticket> gathers(numGathers), reductions(numReductions), across(numReductions);
  const std::vector<AcrossWait> acrossWaits = findAcrossWaits(problem, plan);

  Streams streams(problem);
  auto wait = [&](Ticket ticket, std::vector<double> Timeline::*exposedNs, uint32_t bucket) {
    double beforeNs = streams.getNow();
    streams.waitFor(ticket);
    if (timeline)
      (timeline->*exposedNs)[bucket] += streams.getNow() - beforeNs;
  };
  uint32_t gather = 0, reduction = 0, waited = 0, use = 0, waitedAcross = 0;
  for (uint32_t position = 0; position < numOperations;) {
    for (;; ++reduction) {
      for (; waited < reduction && plan.reductions[waited].wait == position; ++waited)
        wait(reductions[waited], &Timeline::exposedReductionNs, waited);
      if (reduction == numReductions || plan.reductions[reduction].launch > position)
        break;
      reductions[reduction] =
          streams.launch(reductionLane, durations.ofReductions(plan.reductions[reduction]),
                         CollectiveWork::Reduction);
      if (goesAcross(problem, plan.reductions[reduction]))
        across[reduction] =
            streams.launchAcross(reductionLane, durations.ofAcross(plan.reductions[reduction]));
    }
    for (; gather < numGathers && plan.gathers[gather].launch == position; ++gather)
      gathers[gather] = streams.launch(0, durations.ofGathers(plan.gathers[gather]),
                                       gatherWork(plan.gathers[gather].byCopyEngine));
    for (; use < numUses && problem.uses[use].first == position; ++use)
      if (uint32_t bucket = bucketOfUse[use]; bucket < numGathers)
        wait(gathers[bucket], &Timeline::exposedGatherNs, bucket);
    for (; waitedAcross < acrossWaits.size() && acrossWaits[waitedAcross].update == position;
         ++waitedAcross) {
      uint32_t bucket = acrossWaits[waitedAcross].bucket;
      wait(across[bucket], &Timeline::exposedAcrossNs, bucket);
    }

    // No launch or wait lies between `position` and `next`.
    uint32_t next = numOperations;
    if (waited < reduction)
      next = std::min(next, plan.reductions[waited].wait);
    if (reduction < numReductions)
      next = std::min(next, plan.reductions[reduction].launch);
    if (gather < numGathers)
      next = std::min(next, plan.gathers[gather].launch);
    if (use < numUses)
      next = std::min(next, problem.uses[use].first);
    if (waitedAcross < acrossWaits.size())
      next = std::min(next, acrossWaits[waitedAcross].update);
    if constexpr (requires { durations.ofOperations(position, next); }) {
      streams.compute(durations.ofOperations(position, next));
      position = next;
    } else {
      for (; position < next; ++position) {
        double startNs = streams.getNow();
        streams.compute(durations.ofOperation(position));
        if (timeline)
          timeline->operations[position] = {startNs, streams.getNow()};
      }
    }
  }
  double makespanNs = streams.finish();
  if (timeline) {
    for (uint32_t i = 0; i < numGathers; ++i)
      timeline->gathers[i] = streams.getInterval(gathers[i]);
    for (uint32_t i = 0; i < numReductions; ++i)
      timeline->reductions[i] = streams.getInterval(reductions[i]);
    for (const AcrossWait &wait : acrossWaits)
      timeline->across[wait.bucket] = streams.getInterval(across[wait.bucket]);
  }
  return makespanNs;
}

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_REPLAY_H
