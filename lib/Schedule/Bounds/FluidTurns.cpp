//===- FluidTurns.cpp - A gather before a reduction, or behind it ----------===//

#include "FluidRows.h"

#include <algorithm>

using namespace fsdp::schedule;

namespace {

/// Least times from when a reduction is ready until it has ended and computation is at its
/// deadline.
struct Turns {
  double gatheredNs = 0, keptNs = 0; // for the use, or with the copy of the use before
};

class TurnFinder {
public:
  TurnFinder(const Problem &problem, const CollectiveWindows &windows,
             const std::vector<LaneShares> &laneShares)
      : problem(problem), windows(windows), laneShares(laneShares), reachedNs(problem.reachedNs()) {
  }
  /// For a use between readiness and deadline, if its gather costs so much.
  Turns find(const ReductionWindow &reduction, const GatherWindow &gather,
             const CollectiveCost &cost) const;

private:
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

/// Let a reduction be ready at position r and have its deadline at d, and a use between them begin
/// with operation f. Beside some operations in [r, f), the tight ones, its input and the use's copy
/// do not fit together; let b be the position behind the last of them. Let the gather be launched
/// at p and the reduction waited for at w, which are the least of their buckets' times.
///   p < r: the copy is there at the first tight operation, which followed the reduction.
///   r <= p < b: w lies before the last tight operation, so that both have ended when f begins.
///   b <= p, and the reduction has ended when f begins: so have both.
///   b <= p, and it has not. If the gather began first, both happened behind b. Else the gather
///   shared the time with the reduction from begin to end, and both happened behind r.
/// In no stretch of time do both happen that is shorter than the lanes need for them. In the last
/// case operations from f on, beside which the reduction does not fit in flight, were done before
/// it was launched, so behind the gather, or followed it.
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
  // No byte moves before the shorter of the two latencies has passed.
  const double leastLatencyNs = std::min(cost.latencyNs, reduction.cost.latencyNs);
  double bothNs = 0;
  for (const LaneShares &shares : laneShares) {
    const double ofLatencies = shares[LaneWork::GatherLatency] + shares[LaneWork::ReduceLatency];
    bothNs = std::max(bothNs, shares.sumOf(gathered, reduce) +
                                  std::max(0., 1 - ofLatencies) * leastLatencyNs);
  }
  double behindNs = computeNs(ready, behind), restNs = computeNs(first, deadline);
  double endedNs = bothNs + restNs;
  double sharedNs = problem.oneLane ? behindNs + bothNs : std::max(behindNs + gatherNs, bothNs);
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
  TurnFinder finder(problem, windows, laneShares[true][true]);
  for (const ReductionWindow &reduction : windows.reductions) {
    auto gather = std::partition_point(
        windows.gathers.begin(), windows.gathers.end(),
        [&](const GatherWindow &gather) { return gather.first <= reduction.ready; });
    if (gather == windows.gathers.end() || gather->first >= reduction.deadline)
      continue;
    auto index = size_t(gather - windows.gathers.begin());
    Turns turns = finder.find(reduction, *gather, gather->cost);
    double ofChunksNs = finder.find(reduction, *gather, gather->leastCost).gatheredNs;
    auto saved = [&](Column choice, double ns) {
      return std::max(0., turns.gatheredNs - ns) / timeUnitNs * Expression(choice);
    };
    program.requireAtLeast(segmentAt(reduction.deadline).start.time -
                               Expression(segmentAt(reduction.ready).before.time),
                           turns.gatheredNs / timeUnitNs -
                               saved(choices.kept[index], turns.keptNs) -
                               saved(choices.chunked[index], ofChunksNs));
  }
}
