//===- QuickBound.cpp - Longest path and busy lanes -----------------------===//
//
// Both count only the collectives that every plan has: gathers whose copy cannot be kept from the
// previous use, and all reductions. Merging saves latencies but no bytes, so a latency counts only
// where nothing can be merged.
//
//===----------------------------------------------------------------------===//

#include "CollectiveWindows.h"
#include "fsdp/Schedule/LowerBound.h"

#include <algorithm>
#include <limits>
#include <set>

using namespace fsdp::schedule;

namespace {

/// A collective, from a position (the end of the operation before it) to an operation's start.
struct Arc {
  uint32_t from = 0, to = 0;
  double durationNs = 0; // at least, from one to the other; merged it takes longer
  double workNs = 0;     // that no merging saves
  double leadNs = 0;     // of the duration, before that work
};

/// Longest paths over operations and arcs. At a position, computation waits for reductions first,
/// then gathers are launched.
struct Paths {
  /// By position: the least time from the step's start to the end of the operation before it, and
  /// to the end of the reductions that are due there.
  std::vector<double> headNs, launchNs;
  double longestNs() const { return headNs.back(); }
};

/// A lane from the earliest begin of its work to the end of the step.
class LaneBound {
public:
  /// Work that begins after `beforeNs` and is followed by `behindNs`.
  void add(double beforeNs, double moreNs, double behindNs) {
    headNs = std::min(headNs, beforeNs);
    workNs += moreNs;
    tailNs = std::min(tailNs, behindNs);
  }
  double makespanNs() const { return workNs > 0 ? headNs + workNs + tailNs : 0; }

private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  double headNs = kNever, workNs = 0, tailNs = kNever;
};

} // namespace

static std::vector<Arc> gatherArcs(const CollectiveWindows &windows) {
  std::vector<Arc> arcs;
  for (const GatherWindow &gather : windows.gathers) {
    if (gather.keepable)
      continue;
    double bytesNs = gather.leastCost.nsPerByte * double(gather.sizeBytes);
    double durationNs = gather.leastCost.latencyNs + bytesNs;
    arcs.push_back(
        {gather.gate, gather.first, durationNs, gather.mergeable ? bytesNs : durationNs});
  }
  return arcs;
}

static std::vector<Arc> reductionArcs(const CollectiveWindows &windows) {
  std::vector<Arc> arcs;
  for (const ReductionWindow &reduction : windows.reductions) {
    double bytesNs = reduction.cost.nsPerByte * double(reduction.inputBytes);
    double durationNs = reduction.cost.latencyNs + bytesNs;
    arcs.push_back({reduction.ready, reduction.deadline, durationNs,
                    reduction.mergeable ? bytesNs : durationNs});
  }
  return arcs;
}

/// A reduction with its all-reduce over replicas, as one arc. Its work is that of the all-reduce.
static std::vector<Arc> acrossArcs(const CollectiveWindows &windows) {
  std::vector<Arc> arcs;
  for (const ReductionWindow &reduction : windows.reductions) {
    if (!reduction.acrossCost)
      continue;
    double bytesNs = reduction.acrossCost->nsPerByte * double(reduction.outputBytes);
    double durationNs = reduction.acrossCost->durationNs(reduction.outputBytes);
    double reduceNs = reduction.cost.durationNs(reduction.inputBytes);
    arcs.push_back({reduction.ready, reduction.update, reduceNs + durationNs,
                    reduction.mergeable ? bytesNs : durationNs, reduceNs});
  }
  return arcs;
}

static double sumOfWork(const std::vector<Arc> &arcs) {
  double sum = 0;
  for (const Arc &arc : arcs)
    sum += arc.workNs;
  return sum;
}

/// Copies that may be kept share the slack beside each operation of their gaps; what exceeds it is
/// gathered again. Over operations of which no gap contains two, the bytes add up.
static int64_t findBytesGatheredAgain(const CollectiveWindows &windows) {
  size_t n = windows.slackBytes.size();
  std::vector<std::vector<const GatherWindow *>> beginning(n + 1), ending(n + 1);
  for (const GatherWindow &gather : windows.gathers)
    if (gather.keepable && gather.keptFrom < gather.first) {
      beginning[gather.keptFrom].push_back(&gather);
      ending[gather.first].push_back(&gather);
    }
  std::vector<int64_t> mostBytes(n + 1); // by position: over the operations before it
  std::multiset<uint32_t> begins;        // of the gaps around the operation
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

static Paths findPaths(const Problem &problem, std::vector<Arc> gathers,
                       std::vector<Arc> reductions, std::vector<Arc> across) {
  auto byEnd = [](const Arc &a, const Arc &b) { return a.to < b.to; };
  size_t n = problem.operations.size();
  std::vector<double> zeros(n + 1, 0);
  Paths paths{zeros, zeros};

  std::stable_sort(gathers.begin(), gathers.end(), byEnd);
  std::stable_sort(reductions.begin(), reductions.end(), byEnd);
  std::stable_sort(across.begin(), across.end(), byEnd);
  auto gather = gathers.begin(), reduction = reductions.begin(), over = across.begin();
  for (size_t i = 0; i < n; ++i) {
    double launchNs = paths.headNs[i];
    for (; reduction != reductions.end() && reduction->to == i; ++reduction)
      launchNs = std::max(launchNs, paths.headNs[reduction->from] + reduction->durationNs);
    paths.launchNs[i] = launchNs;
    double startNs = launchNs;
    for (; gather != gathers.end() && gather->to == i; ++gather)
      startNs = std::max(startNs, paths.launchNs[gather->from] + gather->durationNs);
    for (; over != across.end() && over->to == i; ++over)
      startNs = std::max(startNs, paths.headNs[over->from] + over->durationNs);
    paths.headNs[i + 1] = startNs + problem.operations[i].durationNs;
  }
  return paths;
}

/// Computation is slower while a lane is busy; the wait before its first operation is idle time in
/// addition.
static double contendedPathNs(const Problem &problem, const Paths &paths, double gatherNs,
                              double reduceNs, double overlap) {
  double computeNs = problem.reachedNs().back();
  double busyNs =
      std::max(gatherNs + (overlap - 1) * reduceNs, reduceNs + (overlap - 1) * gatherNs);
  double firstWaitNs = paths.headNs[1] - problem.operations[0].durationNs;
  return computeNs + busyNs + (firstWaitNs - busyNs) / problem.computeContention;
}

/// One lane does its own work and (overlap - 1) times the other's.
static LaneBound findLaneBound(const std::vector<Arc> &gathers, double gatherFactor,
                               const std::vector<Arc> &reductions, double reduceFactor,
                               const Paths &paths, const std::vector<double> &reachedNs) {
  LaneBound lane;
  for (const Arc &arc : gathers)
    if (gatherFactor > 0)
      lane.add(paths.launchNs[arc.from], gatherFactor * arc.workNs,
               reachedNs.back() - reachedNs[arc.to]);
  for (const Arc &arc : reductions)
    if (reduceFactor > 0)
      lane.add(paths.headNs[arc.from], reduceFactor * arc.workNs,
               reachedNs.back() - reachedNs[arc.to]);
  return lane;
}

std::string_view fsdp::schedule::getName(BoundKind kind) {
  switch (kind) {
  case BoundKind::Path:
    return "path";
  case BoundKind::Lanes:
    return "lanes";
  case BoundKind::Fluid:
    return "fluid";
  }
  return "";
}

LowerBound fsdp::schedule::quickBound(const Problem &problem) {
  LowerBound bound;
  if (problem.operations.empty())
    return bound;
  CollectiveWindows windows = findCollectiveWindows(problem);
  std::vector<Arc> gathers = gatherArcs(windows);
  std::vector<Arc> reductions = reductionArcs(windows);
  std::vector<Arc> across = acrossArcs(windows);
  Paths paths = findPaths(problem, gathers, reductions, across);

  double leastNsPerByte = windows.gatherCost.nsPerByte; // they may be gathered from chunks
  for (const GatherWindow &gather : windows.gathers)
    leastNsPerByte = std::min(leastNsPerByte, gather.leastCost.nsPerByte);
  double againNs = leastNsPerByte * double(findBytesGatheredAgain(windows));

  // In any stretch of time one lane's work and (overlap - 1) times the other's fit in.
  double overlap = problem.oneLane ? 2 : problem.laneContention;
  bound.makespanNs =
      std::max(paths.longestNs(), contendedPathNs(problem, paths, sumOfWork(gathers) + againNs,
                                                  sumOfWork(reductions), overlap));
  auto raise = [&](const LaneBound &lane) {
    if (lane.makespanNs() > bound.makespanNs) {
      bound.makespanNs = lane.makespanNs();
      bound.kind = BoundKind::Lanes;
    }
  };
  const std::vector<double> reachedNs = problem.reachedNs();
  raise(findLaneBound(gathers, 1, reductions, overlap - 1, paths, reachedNs));
  raise(findLaneBound(gathers, overlap - 1, reductions, 1, paths, reachedNs));
  LaneBound replicas;
  for (const Arc &arc : across)
    replicas.add(paths.headNs[arc.from] + arc.leadNs, arc.workNs,
                 reachedNs.back() - reachedNs[arc.to]);
  raise(replicas);
  return bound;
}
