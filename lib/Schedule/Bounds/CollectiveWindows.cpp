//===- CollectiveWindows.cpp - Earliest and latest positions --------------===//

#include "CollectiveWindows.h"

#include "Model/LiveBytes.h"

#include <algorithm>
#include <limits>

using namespace fsdp::schedule;

/// More than any sum of sizes, and small enough that sums do not overflow.
constexpr int64_t kUnlimitedBytes = std::numeric_limits<int64_t>::max() / 4;

static double shareOf(double part, double whole) { return whole > 0 ? part / whole : 1; }

static CostShares sharesOf(const CollectiveCost &cost, const CollectiveCost &dearest) {
  return {shareOf(cost.nsPerByte, dearest.nsPerByte), shareOf(cost.latencyNs, dearest.latencyNs)};
}

static CollectiveCost mostOf(const CollectiveCost &a, const CollectiveCost &b) {
  return {std::max(a.latencyNs, b.latencyNs), std::max(a.nsPerByte, b.nsPerByte)};
}

static CollectiveCost leastOf(const CollectiveCost &a, const CollectiveCost &b) {
  return {std::min(a.latencyNs, b.latencyNs), std::min(a.nsPerByte, b.nsPerByte)};
}

static void findDearest(const Problem &problem, CollectiveWindows &windows) {
  for (const Mesh &mesh : problem.meshes) {
    windows.gatherCost = mostOf(windows.gatherCost, mesh.leastGatherCost());
    windows.reduceCost = mostOf(windows.reduceCost, mesh.reduceCost);
    if (mesh.acrossCost)
      windows.acrossCost = mostOf(windows.acrossCost.value_or(CollectiveCost()), *mesh.acrossCost);
  }
}

static void addGatherWindows(const Problem &problem, CollectiveWindows &found) {
  const std::vector<int32_t> previous = problem.previousUses();
  const std::vector<int64_t> &slack = found.slackBytes;
  std::vector<GatherWindow> &windows = found.gathers;
  /// The first position from which on `bytes` fit beside all operations before `end`.
  auto findFitting = [&](uint32_t begin, uint32_t end, int64_t bytes) {
    while (end > begin && slack[end - 1] >= bytes)
      --end;
    return end;
  };
  for (uint32_t u = 0; u < problem.uses.size(); ++u) { // by first operation
    const Use &use = problem.uses[u];
    const Group &group = problem.groupOfUse(u);
    const KeepRule rule = keepRuleOf(problem, u, previous[u]);
    if (rule == KeepRule::Always)
      continue;
    GatherWindow window;
    window.use = u;
    window.sizeBytes = group.gatheredBytes;
    window.first = use.first;
    window.keptFrom = previous[u] < 0 ? 0 : problem.uses[previous[u]].last + 1;
    window.gate = findFitting(window.keptFrom, use.first, window.sizeBytes);
    window.keepable = rule == KeepRule::Free && window.gate == window.keptFrom;
    window.cost = window.leastCost = problem.meshOfUse(u).leastGatherCost();
    for (uint8_t number = 1; number <= group.chunks.size(); ++number) {
      const Chunk &chunk = group.chunks[number - 1];
      if (!mayChunk(problem, u, previous[u], number) ||
          (!chunk.isOnHost &&
           findFitting(window.keptFrom, use.first, chunk.bytes) != window.keptFrom))
        continue;
      const CollectiveCost cost = leastOf(window.cost, chunk.gatherCost);
      window.chunks.push_back({chunk, cost, sharesOf(cost, found.gatherCost)});
      window.leastCost = leastOf(window.leastCost, cost);
    }
    window.shares = sharesOf(window.cost, found.gatherCost);
    window.leastShares = sharesOf(window.leastCost, found.gatherCost);
    // The use of a bucket's first gather is at or before the previous window's use.
    window.mergeable = problem.coalesces && !windows.empty() && window.gate <= windows.back().first;
    windows.push_back(window);
  }
}

static void addReductionWindows(const Problem &problem, CollectiveWindows &found) {
  for (uint32_t r = 0; r < problem.reductions.size(); ++r) {
    const Reduction &reduction = problem.reductions[r];
    ReductionWindow window{reduction};
    window.excessBytes = reduction.inputBytes - reduction.outputBytes;
    const Mesh &mesh = problem.meshOfReduction(r);
    window.cost = mesh.reduceCost;
    window.shares = sharesOf(window.cost, found.reduceCost);
    if ((window.acrossCost = mesh.acrossCost))
      window.acrossByteShare = shareOf(mesh.acrossCost->nsPerByte, found.acrossCost->nsPerByte);
    window.deadline = reduction.ready;
    while (window.deadline < reduction.update &&
           found.slackBytes[window.deadline] >= window.excessBytes)
      ++window.deadline;
    // A merged reduction is launched when the next reduction is ready, or later.
    window.mergeable = problem.coalesces && r + 1 < problem.reductions.size() &&
                       window.deadline >= problem.reductions[r + 1].ready;
    found.reductions.push_back(window);
  }
}

CollectiveWindows fsdp::schedule::findCollectiveWindows(const Problem &problem) {
  CollectiveWindows windows;
  findDearest(problem, windows);
  for (int64_t bytes : problem.unavoidableBytes())
    windows.slackBytes.push_back(problem.memoryCapBytes.value_or(kUnlimitedBytes) - bytes);
  addGatherWindows(problem, windows);
  addReductionWindows(problem, windows);
  return windows;
}
