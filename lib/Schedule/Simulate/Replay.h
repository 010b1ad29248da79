//===- Replay.h - A plan on the streams -------------------------*- C++ -*-===//

#ifndef FSDP_LIB_SCHEDULE_REPLAY_H
#define FSDP_LIB_SCHEDULE_REPLAY_H

#include "Streams.h"
#include "fsdp/Schedule/IssueOrder.h"

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

/// Issues events on the streams.
template <typename Durations> class Replay {
public:
  Replay(const Problem &problem, const Plan &plan, const Durations &durations, Timeline *timeline)
      : problem(problem), plan(plan), durations(durations), timeline(timeline),
        reductionLane(getReductionLane(problem, plan)), streams(problem),
        gathers(plan.gathers.size()), reductions(plan.reductions.size()),
        across(plan.reductions.size()) {}

  double run() {
    walkIssueOrder(problem, plan, *this);
    const double makespanNs = streams.finish();
    if (timeline)
      readIntervals();
    return makespanNs;
  }

  void launchReduction(uint32_t index) {
    const ReductionBucket &bucket = plan.reductions[index];
    reductions[index] =
        streams.launch(reductionLane, durations.ofReductions(bucket), CollectiveWork::Reduction);
    if (goesAcross(problem, bucket))
      across[index] = streams.launchAcross(reductionLane, durations.ofAcross(bucket));
  }
  void launchGather(uint32_t index) {
    const GatherBucket &bucket = plan.gathers[index];
    gathers[index] =
        streams.launch(0, durations.ofGathers(bucket), gatherWork(bucket.byCopyEngine));
  }
  void waitForReduction(uint32_t index) {
    wait(reductions[index], &Timeline::exposedReductionNs, index);
  }
  void waitForGather(uint32_t index) { wait(gathers[index], &Timeline::exposedGatherNs, index); }
  void waitForAcross(uint32_t index) { wait(across[index], &Timeline::exposedAcrossNs, index); }

  void compute(uint32_t first, uint32_t end) {
    if constexpr (requires { durations.ofOperations(first, end); }) {
      streams.compute(durations.ofOperations(first, end));
    } else {
      for (uint32_t i = first; i < end; ++i) {
        const double startNs = streams.getNow();
        streams.compute(durations.ofOperation(i));
        if (timeline)
          timeline->operations[i] = {startNs, streams.getNow()};
      }
    }
  }

private:
  void wait(Ticket ticket, std::vector<double> Timeline::*exposedNs, uint32_t bucket) {
    const double beforeNs = streams.getNow();
    streams.waitFor(ticket);
    if (timeline)
      (timeline->*exposedNs)[bucket] += streams.getNow() - beforeNs;
  }
  void readIntervals() {
    for (uint32_t i = 0; i < gathers.size(); ++i)
      timeline->gathers[i] = streams.getInterval(gathers[i]);
    for (uint32_t i = 0; i < reductions.size(); ++i) {
      timeline->reductions[i] = streams.getInterval(reductions[i]);
      if (goesAcross(problem, plan.reductions[i]))
        timeline->across[i] = streams.getInterval(across[i]);
    }
  }

  const Problem &problem;
  const Plan &plan;
  const Durations &durations;
  Timeline *const timeline;
  const uint32_t reductionLane;
  Streams streams;
  std::vector<Ticket> gathers, reductions, across;
};

/// Issues the plan in order and returns its makespan. `durations` is called once for each operation
/// and collective, in the order of issue. If it has `ofOperations(first, end)`, it is called once
/// for each run of operations between launches and waits, and the timeline has no operations. Fills
/// `timeline` unless it is null; this is slower.
template <typename Durations>
double replay(const Problem &problem, const Plan &plan, const Durations &durations,
              Timeline *timeline = nullptr) {
  return Replay<Durations>(problem, plan, durations, timeline).run();
}

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_REPLAY_H
