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

/// An arc of the path: collectives between position `from` and the start of operation `to`. An arc
/// over replicas is a reduction and then its all-reduce.
struct Arc {
  enum Kind : uint8_t { Reduction, Gather, OverReplicas } kind;
  uint32_t from, to;
  double durationNs; // the least; a bucket of several members takes longer
};

/// Arcs, and the work of gathers and reductions that merging cannot save.
struct Arcs {
  std::vector<Arc> arcs;
  CollectiveDuration gatherWork, reduceWork;
};

} // namespace

static void addWork(const CollectiveCost &cost, int64_t bytes, bool mergeable,
                    CollectiveDuration &work) {
  // On a measured curve a larger bucket may have a shorter latency, so the line's latency counts.
  work.latencyNs += mergeable ? 0 : cost.latencyNs;
  work.bytesNs += cost.nsPerByte * double(bytes);
}

static Arcs findArcs(const CollectiveWindows &windows) {
  Arcs found;
  for (const GatherWindow &gather : windows.gathers) {
    if (gather.keepable)
      continue;
    addWork(gather.leastCost, gather.sizeBytes, gather.mergeable, found.gatherWork);
    found.arcs.push_back(
        {Arc::Gather, gather.gate, gather.first, gather.leastCost.durationNs(gather.sizeBytes)});
  }
  for (const ReductionWindow &reduction : windows.reductions) {
    const double reduceNs = reduction.cost.durationNs(reduction.inputBytes);
    addWork(reduction.cost, reduction.inputBytes, reduction.mergeable, found.reduceWork);
    found.arcs.push_back({Arc::Reduction, reduction.ready, reduction.deadline, reduceNs});
    if (reduction.acrossCost)
      found.arcs.push_back({Arc::OverReplicas, reduction.ready, reduction.update,
                            reduceNs + reduction.acrossCost->durationNs(reduction.outputBytes)});
  }
  return found;
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
static std::vector<double> findHeads(const Problem &problem, std::vector<Arc> arcs) {
  std::ranges::sort(arcs, {}, [](const Arc &arc) { return std::pair(arc.to, arc.kind); });
  std::vector<double> headNs{0}, launchNs;
  auto arc = arcs.begin();
  for (uint32_t i = 0; i < problem.operations.size(); ++i) {
    double startNs = headNs[i];
    launchNs.push_back(startNs);
    for (; arc != arcs.end() && arc->to == i; ++arc) {
      const std::vector<double> &fromNs = arc->kind == Arc::Gather ? launchNs : headNs;
      startNs = std::max(startNs, fromNs[arc->from] + arc->durationNs);
      if (arc->kind == Arc::Reduction)
        launchNs[i] = startNs;
    }
    headNs.push_back(startNs + problem.operations[i].durationNs);
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
  auto [arcs, gatherWork, reduceWork] = findArcs(windows);
  std::vector<double> headNs = findHeads(problem, std::move(arcs));

  double leastNsPerByte = windows.gatherCost.nsPerByte; // copies may be gathered from chunks
  for (const GatherWindow &gather : windows.gathers)
    leastNsPerByte = std::min(leastNsPerByte, gather.leastCost.nsPerByte);
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
