//===- QuickBound.cpp - Longest path and busy lanes -----------------------===//
//
// The quick bound is the larger of two lower bounds. Both count only the collectives that every
// plan has: gathers whose copy cannot be kept from the previous use, and all reductions. Merging
// saves latencies but no bytes, so a latency counts only if its collective cannot be merged.
//
//===----------------------------------------------------------------------===//

#include "CollectiveWindows.h"
#include "LaneShares.h"
#include "fsdp/Schedule/LowerBound.h"

#include <algorithm>
#include <set>

using namespace fsdp::schedule;

namespace {

/// An arc of the path: a collective between position `from` and the start of operation `to`.
struct Arc {
  uint32_t from = 0, to = 0;
  double durationNs = 0;        // the least; a bucket of several members takes longer
  CollectiveDuration work = {}; // the part that merging cannot save
};

} // namespace

static Arc makeArc(uint32_t from, uint32_t to, const CollectiveCost &cost, int64_t bytes,
                   bool mergeable) {
  // On a measured curve a larger bucket may have a shorter latency, so the line's latency counts.
  const CollectiveDuration work{mergeable ? 0 : cost.latencyNs, cost.nsPerByte * double(bytes)};
  return {from, to, cost.durationNs(bytes), work};
}

static std::vector<Arc> gatherArcs(const CollectiveWindows &windows) {
  std::vector<Arc> arcs;
  for (const GatherWindow &gather : windows.gathers)
    if (!gather.keepable)
      arcs.push_back(
          makeArc(gather.gate, gather.first, gather.leastCost, gather.sizeBytes, gather.mergeable));
  return arcs;
}

static std::vector<Arc> reductionArcs(const CollectiveWindows &windows) {
  std::vector<Arc> arcs;
  for (const ReductionWindow &reduction : windows.reductions)
    arcs.push_back(makeArc(reduction.ready, reduction.deadline, reduction.cost,
                           reduction.inputBytes, reduction.mergeable));
  return arcs;
}

/// A reduction with its all-reduce over replicas, as one arc.
static std::vector<Arc> acrossArcs(const CollectiveWindows &windows) {
  std::vector<Arc> arcs;
  for (const ReductionWindow &reduction : windows.reductions)
    if (reduction.acrossCost)
      arcs.push_back({reduction.ready, reduction.update,
                      reduction.cost.durationNs(reduction.inputBytes) +
                          reduction.acrossCost->durationNs(reduction.outputBytes)});
  return arcs;
}

static CollectiveDuration sumOfWork(const std::vector<Arc> &arcs) {
  CollectiveDuration sum;
  for (const Arc &arc : arcs) {
    sum.latencyNs += arc.work.latencyNs;
    sum.bytesNs += arc.work.bytesNs;
  }
  return sum;
}

/// The gap of a use is the run of operations between the group's previous use and the use. The
/// copies that may be kept over an operation in their gaps share its slack; bytes beyond the slack
/// are gathered again. For operations of which no gap contains two, these bytes add up.
static int64_t findBytesGatheredAgain(const CollectiveWindows &windows) {
  size_t n = windows.slackBytes.size();
  std::vector<std::vector<const GatherWindow *>> beginning(n + 1), ending(n + 1);
  for (const GatherWindow &gather : windows.gathers)
    if (gather.keepable && gather.keptFrom < gather.first) {
      beginning[gather.keptFrom].push_back(&gather);
      ending[gather.first].push_back(&gather);
    }
  std::vector<int64_t> mostBytes(n + 1); // by position: for the operations before it
  std::multiset<uint32_t> begins;        // of the gaps that contain the operation
  int64_t gapBytes = 0;
  for (size_t i = 0; i < n; ++i) {
    for (const GatherWindow *gather : beginning[i]) {
      begins.insert(gather->keptFrom);
      gapBytes += gather->sizeBytes;
    }
    for (const GatherWindow *gather : ending[i]) {
      begins.erase(begins.find(gather->keptFrom));
      gapBytes -= gather->sizeBytes;
    }
    mostBytes[i + 1] = mostBytes[i];
    if (gapBytes > windows.slackBytes[i])
      mostBytes[i + 1] = std::max(mostBytes[i], mostBytes[*begins.begin()] + gapBytes -
                                                    std::max<int64_t>(windows.slackBytes[i], 0));
  }
  return mostBytes.back();
}

/// The head of each position: the least time from the step's start to the end of the operation
/// before it. At a position, waits for reductions come before launches of gathers.
static std::vector<double> findHeads(const Problem &problem, std::vector<Arc> gathers,
                                     std::vector<Arc> reductions, std::vector<Arc> across) {
  size_t n = problem.operations.size();
  std::vector<double> headNs(n + 1), launchNs(n + 1);
  for (std::vector<Arc> *arcs : {&gathers, &reductions, &across})
    std::stable_sort(arcs->begin(), arcs->end(),
                     [](const Arc &a, const Arc &b) { return a.to < b.to; });
  auto gather = gathers.begin(), reduction = reductions.begin(), over = across.begin();
  for (size_t i = 0; i < n; ++i) {
    launchNs[i] = headNs[i];
    for (; reduction != reductions.end() && reduction->to == i; ++reduction)
      launchNs[i] = std::max(launchNs[i], headNs[reduction->from] + reduction->durationNs);
    double startNs = launchNs[i];
    for (; gather != gathers.end() && gather->to == i; ++gather)
      startNs = std::max(startNs, launchNs[gather->from] + gather->durationNs);
    for (; over != across.end() && over->to == i; ++over)
      startNs = std::max(startNs, headNs[over->from] + over->durationNs);
    headNs[i + 1] = startNs + problem.operations[i].durationNs;
  }
  return headNs;
}

std::string_view fsdp::schedule::getName(BoundKind kind) {
  constexpr std::string_view kNames[] = {"path", "lanes", "fluid"};
  return kNames[size_t(kind)];
}

LowerBound fsdp::schedule::quickBound(const Problem &problem) {
  if (problem.operations.empty())
    return {};
  CollectiveWindows windows = findCollectiveWindows(problem);
  std::vector<Arc> gathers = gatherArcs(windows), reductions = reductionArcs(windows);
  std::vector<double> headNs = findHeads(problem, gathers, reductions, acrossArcs(windows));

  double leastNsPerByte = windows.gatherCost.nsPerByte; // copies may be gathered from chunks
  for (const GatherWindow &gather : windows.gathers)
    leastNsPerByte = std::min(leastNsPerByte, gather.leastCost.nsPerByte);
  CollectiveDuration gatherWork = sumOfWork(gathers), reduceWork = sumOfWork(reductions);
  gatherWork.bytesNs += leastNsPerByte * double(findBytesGatheredAgain(windows));
  // Computation starts after its first wait has ended.
  const double firstWaitNs = headNs[1] - problem.operations[0].durationNs;
  double pathNs = headNs.back(), busyNs = 0;
  for (const LaneShares &shares : findLaneShares(problem, {.gathers = true, .reductions = true})) {
    const double sumNs = shares[LaneWork::Compute] * problem.reachedNs().back() +
                         shares.sumOf(gatherWork, reduceWork) + (1 - shares.idleRate) * firstWaitNs;
    double &ofKind = shares[LaneWork::Compute] > 0 ? pathNs : busyNs;
    ofKind = std::max(ofKind, sumNs);
  }
  LowerBound bound;
  bound.makespanNs = std::max(pathNs, busyNs);
  bound.kind = busyNs > pathNs ? BoundKind::Lanes : BoundKind::Path;
  return bound;
}
