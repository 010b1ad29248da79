//===- CriticalPath.cpp - The work that bounds a step ---------------------===//

#include "fsdp/Explain/CriticalPath.h"

#include "fsdp/Schedule/IssueOrder.h"

#include <algorithm>
#include <cassert>

using namespace fsdp;
using namespace fsdp::explain;
using namespace fsdp::schedule;

std::string_view fsdp::explain::getName(PathKind kind) {
  static constexpr std::string_view names[kNumPathKinds] = {
      "computation", "all_gather", "reduce_scatter", "all_reduce", "fetch", "store"};
  return names[static_cast<unsigned>(kind)];
}

static double getLength(const Interval &interval) { return interval.endNs - interval.startNs; }

namespace {

/// Visits the order of issue and notes for each operation and collective what it follows.
class PathFinder {
public:
  PathFinder(const Problem &problem, const Plan &plan, const Timeline &timeline)
      : problem(problem), plan(plan), timeline(timeline),
        reductionLane(getReductionLane(problem, plan)), gathers(plan.gathers.size()),
        reductions(plan.reductions.size()), across(plan.reductions.size()) {
    for (const Operation &operation : problem.operations)
      aloneNs.push_back(operation.durationNs);
    const std::vector<int32_t> previousUses = problem.previousUses();
    for (size_t use = 0; use < plan.chunked.size(); ++use)
      if (plan.chunked[use])
        aloneNs[problem.uses[previousUses[use]].last] +=
            problem.chunkOf(use, plan.chunked[use]).copyNs;
  }

  std::vector<PathSegment> find() {
    walkIssueOrder(problem, plan, *this);
    for (uint32_t last : lastOfLane)
      waitFor(last); // the end of the step
    assert(nowNs == timeline.makespanNs && "the plan's timeline");
    std::vector<PathSegment> path;
    for (uint32_t node = stream; node != kNone; node = nodes[node].previous)
      if (getLength(nodes[node].segment.interval) > 0)
        path.push_back(nodes[node].segment);
    std::ranges::reverse(path);
    return path;
  }

  void launchGather(uint32_t index) {
    const GatherBucket &bucket = plan.gathers[index];
    gathers[index] =
        launch({PathKind::Gather, index}, /*lane=*/0, timeline.gathers[index],
               problem.ofGather(bucket.uses, plan.chunked, bucket.byCopyEngine).totalNs());
  }
  void launchReduction(uint32_t index) {
    const std::vector<uint32_t> &bucket = plan.reductions[index].reductions;
    const uint32_t collective = gathers.size() + index;
    reductions[index] = launch({PathKind::Reduction, collective}, reductionLane,
                               timeline.reductions[index], problem.ofReduction(bucket).totalNs());
    if (timeline.across[index])
      across[index] = launch({PathKind::AllReduce, collective}, kAcrossLane,
                             *timeline.across[index], problem.ofAcross(bucket).totalNs(),
                             /*after=*/reductions[index]);
  }
  void waitForGather(uint32_t index) { waitFor(gathers[index]); }
  void waitForReduction(uint32_t index) { waitFor(reductions[index]); }
  void waitForAcross(uint32_t index) { waitFor(across[index]); }
  void compute(uint32_t first, uint32_t end) {
    for (uint32_t i = first; i < end; ++i) {
      const Interval &interval = timeline.operations[i];
      assert(interval.startNs == nowNs && "the operation follows computation and its waits");
      stream = add({{PathKind::Computation, i}, interval, slowdownOf(interval, aloneNs[i])});
      nowNs = interval.endNs;
    }
  }

private:
  static constexpr uint32_t kNone = UINT32_MAX, kAcrossLane = 2, kNumLanes = 3;

  struct Node {
    PathSegment segment;
    uint32_t previous; // kNone: it begins with the step
  };

  static double slowdownOf(const Interval &interval, double aloneNs) {
    const double slowdownNs = getLength(interval) - aloneNs;
    return slowdownNs > 1e-9 * interval.endNs ? slowdownNs : 0; // else rounding
  }

  /// The node follows the compute stream.
  uint32_t add(const PathSegment &segment) {
    nodes.push_back({segment, stream});
    return nodes.size() - 1;
  }

  uint32_t launch(PathItem item, uint32_t lane, const Interval &interval, double aloneNs,
                  uint32_t after = kNone) {
    const uint32_t number = add({item, interval, slowdownOf(interval, aloneNs)});
    Node &node = nodes[number];
    double beginNs = nowNs;
    auto hold = [&](double timeNs, uint32_t previous, PathCause cause, uint32_t behind) {
      if (timeNs <= beginNs)
        return;
      beginNs = timeNs;
      node.previous = previous;
      node.segment.cause = cause;
      node.segment.behind = nodes[behind].segment;
    };
    if (const uint32_t last = lastOfLane[lane]; last != kNone)
      hold(nodes[last].segment.interval.endNs, last, PathCause::Lane, last);
    if (after != kNone)
      hold(nodes[after].segment.interval.endNs, after, PathCause::Reduction, after);
    // It begins with the collective launched last, so it follows what that one follows.
    if (problem.onGpus && lastLaunched != kNone)
      hold(nodes[lastLaunched].segment.interval.startNs, nodes[lastLaunched].previous,
           PathCause::Order, lastLaunched);
    assert(beginNs == interval.startNs && "a collective begins as soon as it may");
    lastOfLane[lane] = lastLaunched = number;
    return number;
  }

  void waitFor(uint32_t node) {
    if (node == kNone || nodes[node].segment.interval.endNs <= nowNs)
      return;
    nowNs = nodes[node].segment.interval.endNs;
    stream = node;
  }

  const Problem &problem;
  const Plan &plan;
  const Timeline &timeline;
  const uint32_t reductionLane;
  std::vector<double> aloneNs; // by operation
  std::vector<Node> nodes;
  std::vector<uint32_t> gathers, reductions, across; // nodes, by bucket
  uint32_t lastOfLane[kNumLanes] = {kNone, kNone, kNone}, lastLaunched = kNone;
  double nowNs = 0;        // on the compute stream
  uint32_t stream = kNone; // the node that ends then
};

} // namespace

/// Makes each wait for a host copy a segment of its own, before its operation or after the last
/// one. Slowdown counts for the operation.
static std::vector<PathSegment> splitWaits(const std::vector<PathSegment> &path,
                                           std::span<const HostCopyWait> waits,
                                           uint32_t numOperations) {
  std::vector<PathSegment> split;
  auto wait = waits.begin();
  for (PathSegment segment : path) {
    if (segment.kind != PathKind::Computation) {
      split.push_back(segment);
      continue;
    }
    auto operationOf = [&](const HostCopyWait &wait) {
      return std::min(wait.position, numOperations - 1);
    };
    while (wait != waits.end() && operationOf(*wait) < segment.index)
      ++wait;
    auto end = wait;
    double afterNs = 0; // waits after the operation
    for (; end != waits.end() && operationOf(*end) == segment.index; ++end)
      afterNs += end->position == numOperations ? end->ns : 0;
    Interval rest = segment.interval;
    auto take = [&](const PathItem &item, double ns, double slowdownNs) {
      const double endNs = std::min(rest.startNs + ns, rest.endNs);
      if (endNs > rest.startNs)
        split.push_back({item, {rest.startNs, endNs}, slowdownNs});
      rest.startNs = endNs;
    };
    auto takeWait = [&] {
      take({wait->isStore ? PathKind::Store : PathKind::Fetch, wait->copy}, wait->ns, 0);
      ++wait;
    };
    while (wait != end && wait->position == segment.index)
      takeWait();
    take(segment, std::max(0.0, getLength(rest) - afterNs), segment.slowdownNs);
    while (wait != end)
      takeWait();
    split.back().interval.endNs = segment.interval.endNs; // despite rounding
  }
  return split;
}

std::vector<PathSegment> fsdp::explain::findCriticalPath(const Problem &problem, const Plan &plan,
                                                         const Timeline &timeline,
                                                         std::span<const HostCopyWait> waits) {
  return splitWaits(PathFinder(problem, plan, timeline).find(), waits, timeline.operations.size());
}
