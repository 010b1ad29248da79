//===- FluidTurns.cpp - Disjunctions of a gather and a reduction -----------===//

#include "FluidProgram.h"

#include <algorithm>

using namespace fsdp::schedule;

/// Gathers behind a reduction that are looked at.
static constexpr uint32_t kNextGathers = 4;

/// The least time from the position at which a reduction is ready until the reduction has ended and
/// computation has reached its deadline.
struct FluidProgram::Turns {
  double gatheredNs = 0, keptNs = 0; // if the use is gathered; if it reads the previous use's copy
};

/// A disjunction: in each case the time from r to d has a lower bound, and the least of these
/// bounds holds for every plan.
///
/// Let a reduction be ready at position r with its deadline at d, and let a use between r and d
/// begin with operation f. An operation in [r, f) is tight if the reduction's input and the use's
/// copy do not fit beside it together. Let b be the position after the last tight operation, p the
/// launch of the gather and w the wait for the reduction (positions of their buckets).
///   1. p < r. The copy is live at the first tight operation, so this operation runs after the
///      reduction has ended.
///   2. r <= p < b. Then w is before the last tight operation, so both collectives have ended when
///      f begins.
///   3. b <= p, and the reduction has ended when f begins. Both collectives have ended then.
///   4. b <= p, and the reduction has not ended when f begins. If the gather began first, both
///      collectives run after b. Otherwise the reduction runs during the whole gather, and both run
///      after r.
/// A stretch of time in which both collectives run is at least as long as the lanes need for both.
/// In case 4, take an operation at or after f beside which the reduction's input does not fit. The
/// operation either ran before the reduction's launch, so after the gather, or it runs after the
/// reduction.
///
/// The use is between the reduction's readiness and deadline. `cost` is that of its gather.
FluidProgram::Turns FluidProgram::findTurns(const ReductionWindow &reduction,
                                            const GatherWindow &gather,
                                            const CollectiveCost &cost) const {
  auto computeNs = [&](uint32_t from, uint32_t to) {
    return from < to ? reachedNs[to] - reachedNs[from] : 0;
  };
  const CollectiveDuration reduce = reduction.cost.of(reduction.inputBytes);
  const CollectiveDuration gathered = cost.of(gather.sizeBytes);
  const double reduceNs = reduce.totalNs(), gatherNs = gathered.totalNs();
  uint32_t ready = reduction.ready, first = gather.first, deadline = reduction.deadline;
  double leastNs = std::max(computeNs(ready, deadline), reduceNs);
  Turns turns{leastNs, leastNs};
  uint32_t firstTight = deadline, firstKeptTight = deadline, behind = 0;
  for (uint32_t k = ready; k < first; ++k) {
    if (windows.slackBytes[k] >= gather.sizeBytes + reduction.excessBytes)
      continue;
    firstTight = std::min(firstTight, k);
    if (k >= gather.keptFrom)
      firstKeptTight = std::min(firstKeptTight, k);
    behind = k + 1;
  }
  if (behind == 0)
    return turns;
  turns.keptNs = std::max(leastNs, reduceNs + computeNs(firstKeptTight, deadline));
  // No byte moves until the shorter of the two latencies has passed.
  const double leastLatencyNs = std::min(cost.latencyNs, reduction.cost.latencyNs);
  double bothNs = 0;
  for (const LaneShares &shares : laneShares[true][true]) {
    const double ofLatencies = shares[LaneWork::GatherLatency] + shares[LaneWork::ReduceLatency];
    bothNs = std::max(bothNs, shares.sumOf(gathered, reduce) +
                                  std::max(0., 1 - ofLatencies) * leastLatencyNs);
  }
  double behindNs = computeNs(ready, behind), restNs = computeNs(first, deadline);
  double endedNs = bothNs + restNs;
  // Beside the reduction's latency the gather's bytes are not slower. In a larger bucket this
  // latency may be longer, unless a line says what the bucket costs.
  const bool isLine = problem.coalesces && !reduction.cost.curve;
  const double slowedNs = isLine ? std::max(0., gathered.bytesNs - reduce.latencyNs) : 0;
  double sharedNs =
      problem.oneLane
          ? behindNs + bothNs
          : std::max(behindNs + gatherNs + (problem.contention.lanes - 1) * slowedNs, bothNs);
  double blockedNs = 0;
  for (uint32_t k = first; k < deadline; ++k)
    if (windows.slackBytes[k] < reduction.inputBytes)
      blockedNs += problem.operations[k].durationNs;
  double pendingNs =
      std::max(behindNs + gatherNs + restNs, std::min(behindNs + bothNs, sharedNs) + blockedNs);
  turns.gatheredNs = std::min(endedNs, pendingNs);
  if (gather.gate < ready)
    turns.gatheredNs = std::min(turns.gatheredNs, reduceNs + computeNs(firstTight, deadline));
  turns.gatheredNs = std::max(turns.gatheredNs, leastNs);
  return turns;
}

void FluidProgram::addTurns() {
  if (!problem.memoryCapBytes)
    return;
  for (const FluidReduction &reduction : reductions) {
    auto gather = std::ranges::upper_bound(gathers, reduction.ready, {}, &FluidGather::first);
    for (uint32_t i = 0;
         i < kNextGathers && gather != gathers.end() && gather->first < reduction.deadline;
         ++i, ++gather) {
      Turns turns = findTurns(reduction, *gather, gather->cost);
      Expression least = turns.gatheredNs / timeUnitNs;
      auto save = [&](Column choice, double ns) {
        least -= std::max(0., turns.gatheredNs - ns) / timeUnitNs * Expression(choice);
      };
      save(gather->kept, turns.keptNs);
      for (const FluidChunk &choice : gather->choices)
        save(choice.chosen, findTurns(reduction, *gather, choice.cost).gatheredNs);
      program.requireAtLeast(segmentAt(reduction.deadline).reduced.time -
                                 Expression(segmentAt(reduction.ready).before.time),
                             least);
    }
  }
}
