//===- FluidTurns.cpp - Disjunctions of a gather and a reduction -----------===//

#include "FluidRows.h"

#include <algorithm>

using namespace fsdp::schedule;

/// Gathers behind a reduction that are looked at.
static constexpr uint32_t kNextGathers = 4;

namespace {

/// The least time from the position at which a reduction is ready until the reduction has ended and
/// computation has reached its deadline.
struct Turns {
  double gatheredNs = 0, keptNs = 0; // if the use is gathered; if it reads the previous use's copy
};

struct TurnFinder {
  /// For a use between the reduction's readiness and deadline. `cost` is that of the use's gather.
  Turns find(const ReductionWindow &reduction, const GatherWindow &gather,
             const CollectiveCost &cost) const;
  /// Computation between two positions.
  double computeNs(uint32_t from, uint32_t to) const {
    return from < to ? reachedNs[to] - reachedNs[from] : 0;
  }

  const Problem &problem;
  const CollectiveWindows &windows;
  const std::vector<LaneShares> &laneShares;
  const std::vector<double> reachedNs;
};

} // namespace

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
Turns TurnFinder::find(const ReductionWindow &reduction, const GatherWindow &gather,
                       const CollectiveCost &cost) const {
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
  for (const LaneShares &shares : laneShares) {
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

void FluidRows::addTurns() {
  if (!problem.memoryCapBytes)
    return;
  TurnFinder finder{problem, windows, laneShares[true][true], problem.reachedNs()};
  for (const ReductionWindow &reduction : windows.reductions) {
    auto gather = std::partition_point(
        windows.gathers.begin(), windows.gathers.end(),
        [&](const GatherWindow &gather) { return gather.first <= reduction.ready; });
    for (uint32_t i = 0;
         i < kNextGathers && gather != windows.gathers.end() && gather->first < reduction.deadline;
         ++i, ++gather) {
      auto index = size_t(gather - windows.gathers.begin());
      Turns turns = finder.find(reduction, *gather, gather->cost);
      double ofChunksNs = finder.find(reduction, *gather, gather->leastCost).gatheredNs;
      auto saved = [&](Column choice, double ns) {
        return std::max(0., turns.gatheredNs - ns) / timeUnitNs * Expression(choice);
      };
      program.requireAtLeast(segmentAt(reduction.deadline).reduced.time -
                                 Expression(segmentAt(reduction.ready).before.time),
                             turns.gatheredNs / timeUnitNs -
                                 saved(choices.kept[index], turns.keptNs) -
                                 saved(choices.chunked[index], ofChunksNs));
    }
  }
}
