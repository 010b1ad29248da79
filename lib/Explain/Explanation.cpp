//===- Explanation.cpp - Reasons of a plan's decisions --------------------===//

#include "fsdp/Explain/Explanation.h"

#include "fsdp/Explain/Quantities.h"

#include <cmath>

using namespace fsdp::explain;
using namespace fsdp::schedule;

namespace {

/// Finds the operation with the most live bytes in a range, the first of equal ones. A segment
/// tree.
class LargestLive {
public:
  explicit LargestLive(const std::vector<int64_t> &liveBytes)
      : live(liveBytes), size(liveBytes.size()), tree(2 * size) {
    for (size_t i = 0; i < size; ++i)
      tree[size + i] = static_cast<uint32_t>(i);
    for (size_t i = size; i-- > 1;)
      tree[i] = larger(tree[2 * i], tree[2 * i + 1]);
  }

  /// In first, ..., last; first <= last.
  uint32_t find(uint32_t first, uint32_t last) const {
    uint32_t best = first;
    size_t low = first + size, high = last + size + 1;
    for (; low < high; low /= 2, high /= 2) {
      if (low & 1)
        best = larger(best, tree[low++]);
      if (high & 1)
        best = larger(best, tree[--high]);
    }
    return best;
  }

private:
  uint32_t larger(uint32_t a, uint32_t b) const {
    return live[a] > live[b] || (live[a] == live[b] && a < b) ? a : b;
  }

  const std::vector<int64_t> &live;
  size_t size;
  std::vector<uint32_t> tree;
};

class Explainer {
public:
  Explainer(const Problem &problem, const Plan &plan, const ScheduleView &view)
      : problem(problem), plan(plan), view(view), previous(problem.previousUses()) {}

  Explanation explain() {
    explainKeeps();
    explainLaunches();
    return std::move(result);
  }

private:
  void explainKeeps() {
    std::vector<int64_t> most = view.liveBytes; // by position, including launches of reductions
    for (size_t i = 0; i < most.size(); ++i)
      most[i] = std::max(most[i], view.launchBytes[i]);
    LargestLive largest(most);
    for (uint32_t i = 0; i < problem.uses.size(); ++i) {
      if (previous[i] < 0)
        continue;
      const Use &use = problem.uses[i], &before = problem.uses[previous[i]];
      const Group &group = problem.groups[use.group];
      KeepReason reason;
      reason.use = i;
      reason.kept = plan.kept[i];
      reason.rule = group.keep;
      reason.sizeBytes = group.gatheredBytes;
      reason.gapNs = view.operations[use.first].startNs - view.operations[before.last].endNs;
      reason.laneNs = problem.meshOf(group).gatherCost.durationNs(group.gatheredBytes);
      if (plan.isChunked(i)) {
        const Chunk &chunk = problem.chunkOf(i, plan.chunkedOf(i));
        reason.chunkRanks = chunk.ranks;
        reason.isChunkOnHost = chunk.isOnHost;
        reason.chunkNs = chunk.gatherCost.durationNs(group.gatheredBytes);
      }
      if (problem.memoryCapBytes && before.last + 1 < use.first) {
        // A copy that is gathered again is live from its launch on, so that only earlier operations
        // would hold more. Reductions at the launch's position are launched before it.
        uint32_t end = reason.kept ? use.first : std::min(use.first, launchOf(i));
        if (before.last + 1 < end) {
          uint32_t tight = largest.find(before.last + 1, end - 1);
          reason.tightest = {tight, *problem.memoryCapBytes - most[tight]};
        }
        if (int64_t launch = view.launchBytes[end]; launch > 0 && before.last + 1 <= end) {
          int64_t room = *problem.memoryCapBytes - launch;
          if (!reason.tightest || room < reason.tightest->bytes)
            reason.tightest = {end, room};
        }
      }
      result.keeps.push_back(reason);
    }
  }

  uint32_t launchOf(uint32_t use) {
    if (launches.empty()) {
      launches.assign(problem.uses.size(), 0);
      for (const GatherBucket &bucket : plan.gathers)
        for (uint32_t member : bucket.uses)
          launches[member] = bucket.launch;
    }
    return launches[use];
  }

  void explainLaunches() {
    std::vector<std::optional<uint32_t>> before = findLanePredecessors();
    for (uint32_t i = 0; i < view.collectives.size(); ++i) {
      const CollectiveView &collective = view.collectives[i];
      bool isGather = collective.kind == CollectiveKind::AllGather;
      LaunchReason reason;
      reason.collective = i;
      reason.latencySavedNs = isGather ? savedBy(plan.gathers[collective.bucket])
                                       : savedBy(plan.reductions[collective.bucket]);
      // First the reductions that must precede it, then earlier launches of the same kind.
      auto [ready, held] = isGather ? readyOf(plan.gathers[collective.bucket])
                                    : readyOf(plan.reductions[collective.bucket]);
      uint32_t limit = ready;
      if (collective.bucket > 0)
        limit = std::max(limit, view.collectives[i - 1].launch);
      int64_t needBytes = isGather ? collective.sizeBytes : outputBytesOf(collective.bucket);
      reason.earliest = collective.launch;
      while (reason.earliest > limit && fitsAt(collective.kind, reason.earliest - 1, needBytes))
        --reason.earliest;
      reason.by = findHolder(collective, ready, held, needBytes, before[i], reason);
      result.launches.push_back(reason);
    }
  }

  /// The memory left for a collective that is launched one position later so far. A gather would
  /// then be live while the reductions of that later position are launched.
  int64_t roomAt(CollectiveKind kind, uint32_t operation) const {
    int64_t live = view.liveBytes[operation];
    if (kind == CollectiveKind::AllGather && operation + 1 < view.launchBytes.size())
      live = std::max(live, view.launchBytes[operation + 1]);
    return *problem.memoryCapBytes - live;
  }
  bool fitsAt(CollectiveKind kind, uint32_t operation, int64_t bytes) const {
    return !problem.memoryCapBytes || roomAt(kind, operation) >= bytes;
  }

  /// The time that one launch saves compared to separate launches of its members.
  double savedBy(const GatherBucket &bucket) const {
    double ns = -problem.ofGather(bucket.uses, plan.chunked, bucket.byCopyEngine).totalNs();
    for (uint32_t use : bucket.uses)
      ns += problem.ofGather({&use, 1}, plan.chunked, bucket.byCopyEngine).totalNs();
    return ns;
  }
  double savedBy(const ReductionBucket &bucket) const {
    double ns = -problem.ofReduction(bucket.reductions).totalNs();
    for (uint32_t reduction : bucket.reductions)
      ns += problem.ofReduction({&reduction, 1}).totalNs();
    return ns;
  }
  int64_t outputBytesOf(uint32_t bucket) const {
    int64_t sum = 0;
    for (uint32_t member : plan.reductions[bucket].reductions)
      sum += problem.reductions[member].outputBytes;
    return sum;
  }

  std::pair<uint32_t, HeldBy> readyOf(const GatherBucket &bucket) const {
    uint32_t released = 0, stored = 0; // positions
    for (uint32_t use : bucket.uses)
      if (previous[use] >= 0) {
        const auto before = static_cast<uint32_t>(previous[use]);
        released = std::max(released, problem.releasedAt(before, 0));
        stored = std::max(stored, problem.releasedAt(before, plan.chunkedOf(use)));
      }
    return {std::max(released, stored), stored > released ? HeldBy::Store
                                        : released == 0   ? HeldBy::Start
                                                          : HeldBy::Release};
  }
  std::pair<uint32_t, HeldBy> readyOf(const ReductionBucket &bucket) const {
    uint32_t position = 0;
    for (uint32_t member : bucket.reductions)
      position = std::max(position, problem.reductions[member].ready);
    return {position, HeldBy::Gradients};
  }

  /// For each collective, the one before it on its lane.
  std::vector<std::optional<uint32_t>> findLanePredecessors() const {
    bool isOneLane = problem.oneLane || plan.shareLane;
    std::vector<uint32_t> order(view.collectives.size());
    for (uint32_t i = 0; i < order.size(); ++i)
      order[i] = i;
    if (isOneLane)
      std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
        return view.collectives[a].interval.startNs < view.collectives[b].interval.startNs;
      });
    std::vector<std::optional<uint32_t>> before(order.size());
    for (size_t i = 1; i < order.size(); ++i)
      if (isOneLane || view.collectives[order[i]].kind == view.collectives[order[i - 1]].kind)
        before[order[i]] = order[i - 1];
    return before;
  }

  /// On GPUs, the collective of another lane with which this one begins, if that is later than its
  /// launch and the end of the collective before it on its lane.
  std::optional<uint32_t> findOrder(const CollectiveView &collective, double laneFreeNs) const {
    constexpr double kRoundingNs = .5;
    const double startNs = collective.interval.startNs;
    if (!problem.onGpus || startNs <= std::max(collective.issueNs, laneFreeNs) + kRoundingNs)
      return std::nullopt;
    for (uint32_t i = 0; i < view.collectives.size(); ++i) {
      const CollectiveView &other = view.collectives[i];
      const Interval &last = other.across ? *other.across : other.interval;
      if (&other != &collective && other.launch <= collective.launch &&
          std::abs(last.startNs - startNs) <= kRoundingNs)
        return i;
    }
    return std::nullopt;
  }

  HeldBy findHolder(const CollectiveView &collective, uint32_t ready, HeldBy held,
                    int64_t needBytes, std::optional<uint32_t> before, LaunchReason &reason) const {
    double laneFreeNs = before ? view.collectives[*before].interval.endNs : 0;
    if (std::optional<uint32_t> other = findOrder(collective, laneFreeNs)) {
      reason.other = other;
      return HeldBy::Order;
    }
    auto isBusyAt = [&](double timeNs) { return before && laneFreeNs > timeNs; };
    if (isBusyAt(collective.issueNs)) {
      reason.other = before;
      return HeldBy::Lane;
    }
    if (collective.launch == ready)
      return held;
    if (!fitsAt(collective.kind, collective.launch - 1, needBytes)) {
      uint32_t tight = collective.launch - 1;
      reason.tightest = {tight, roomAt(collective.kind, tight)};
      return HeldBy::Memory;
    }
    // The lane would still have been busy if the collective had been launched one operation
    // earlier.
    if (isBusyAt(collective.launch < 2 ? 0 : view.operations[collective.launch - 2].endNs)) {
      reason.other = before;
      return HeldBy::LaneBefore;
    }
    if (reason.earliest == collective.launch) {
      reason.other = before;
      return HeldBy::Turn;
    }
    return HeldBy::Choice;
  }

  const Problem &problem;
  const Plan &plan;
  const ScheduleView &view;
  std::vector<int32_t> previous;
  std::vector<uint32_t> launches; // by use: the launch of its gather
  Explanation result;
};

} // namespace

Explanation fsdp::explain::explain(const Problem &problem, const Plan &plan,
                                   const ScheduleView &view) {
  return Explainer(problem, plan, view).explain();
}

static std::string describeRoom(const Headroom &room, const ScheduleView &view) {
  // Many reasons refer to the peak; the module where it occurs is printed once, with the step.
  if (room.operation == view.peakOperation)
    return formatBytes(room.bytes) + " left at the peak";
  return formatBytes(room.bytes) + " left in " + describe(view.labels.operations[room.operation]);
}

/// The chunk of one rank is the whole group.
static std::string describeChunk(const KeepReason &reason) {
  if (reason.chunkRanks == 1)
    return reason.isChunkOnHost ? "the host" : "this rank's copy";
  return "chunks of " + std::to_string(reason.chunkRanks) + " neighbours" +
         (reason.isChunkOnHost ? " on the host" : "");
}

std::string fsdp::explain::describe(const KeepReason &reason, const ScheduleView &view) {
  std::string asked = reason.rule == KeepRule::Free ? "" : ", as asked";
  if (reason.kept) {
    std::string text = "kept" + asked + " for " + formatTime(reason.gapNs) + ", saves " +
                       formatTime(reason.laneNs) + " of gathering";
    return reason.tightest ? text + "; " + describeRoom(*reason.tightest, view) : text;
  }
  std::string text = "gathered again" + asked;
  if (reason.chunkRanks > 0)
    return text + " from " + describeChunk(reason) + ", " +
           formatBytes(reason.sizeBytes / reason.chunkRanks) + " for " + formatTime(reason.gapNs) +
           ", takes " + formatTime(reason.chunkNs) + " instead of " + formatTime(reason.laneNs);
  if (!reason.tightest)
    return text + ", holds no memory for " + formatTime(reason.gapNs);
  if (reason.tightest->bytes < reason.sizeBytes)
    return text + ": keeping " + formatBytes(reason.sizeBytes) + " would not fit, " +
           describeRoom(*reason.tightest, view);
  return text + ", though keeping it alone would fit: " + describeRoom(*reason.tightest, view);
}

std::string fsdp::explain::describe(const LaunchReason &reason, const ScheduleView &view) {
  switch (reason.by) {
  case HeldBy::Start:
    return "at the start of the step";
  case HeldBy::Gradients:
    return "as soon as its gradients are there";
  case HeldBy::Release:
    return "as soon as its last copy is released";
  case HeldBy::Store:
    return "as soon as its chunk is on the host";
  case HeldBy::Lane:
    return "lane busy until then: " + describe(view.collectives[*reason.other]);
  case HeldBy::LaneBefore:
    return "lane busy until the operation before: " + describe(view.collectives[*reason.other]);
  case HeldBy::Memory:
    return "memory: " + describeRoom(*reason.tightest, view);
  case HeldBy::Turn:
    return "after " + describe(view.collectives[*reason.other]);
  case HeldBy::Order: {
    const CollectiveView &other = view.collectives[*reason.other];
    return "NCCL starts it behind " +
           (other.across ? "all_reduce " + joinNames(other.groups) : describe(other));
  }
  case HeldBy::Choice: {
    bool isHidden = view.collectives[reason.collective].exposedNs == 0;
    return (isHidden ? "early enough; could be issued from " : "could be issued earlier, from ") +
           describe(view.labels.operations[reason.earliest]) + " on";
  }
  }
  return "";
}
