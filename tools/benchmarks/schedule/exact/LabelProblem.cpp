//===- LabelProblem.cpp - A problem as positions and sets -----------------===//

#include "LabelProblem.h"

#include "Bounds/CollectiveWindows.h"

#include <algorithm>
#include <limits>

using namespace fsdp::schedule;

/// Larger than any sum of sizes, and far from overflow.
static constexpr int64_t kUnlimitedBytes = std::numeric_limits<int64_t>::max() / 4;

static void addUses(const Problem &problem, const CollectiveWindows &windows,
                    LabelProblem &result) {
  std::vector<int32_t> previous = problem.previousUses(), next = problem.nextUses();
  for (size_t u = 0; u < problem.uses.size(); ++u) {
    const Use &use = problem.uses[u];
    const Group &group = problem.groups[use.group];
    bool isServed = previous[u] >= 0 && group.keep == KeepRule::Always;
    result.uses.push_back({group.gatheredBytes, use.first, 0, 0, 0, next[u], false, isServed});
    result.served |= Set(isServed) << u;
    result.items[use.first].beginning |= Set(1) << u;
    if (use.last + 1 < result.items.size())
      result.items[use.last + 1].released |= Set(1) << u;
  }
  for (const GatherWindow &window : windows.gathers) {
    LabelUse &use = result.uses[window.use];
    use.keptFrom = window.keptFrom;
    use.gate = window.gate;
    use.isKeepable = window.keepable;
  }
  uint32_t leastGate = UINT32_MAX;
  for (auto use = result.uses.rbegin(); use != result.uses.rend(); ++use) {
    if (!use->isServed)
      leastGate = std::min(leastGate, use->gate);
    use->leastGate = leastGate;
  }
}

static void addReductions(const Problem &problem, const CollectiveWindows &windows,
                          LabelProblem &result) {
  for (size_t r = 0; r < problem.reductions.size(); ++r) {
    const ReductionWindow &window = windows.reductions[r];
    int64_t outputBytes = problem.reductions[r].outputBytes;
    result.reductions.push_back({window.ready, window.deadline, window.inputBytes, outputBytes});
    result.items[window.ready].gettingReady |= Set(1) << r;
    result.items[window.deadline].due |= Set(1) << r;
    if (uint32_t end = problem.reductions[r].update + 1; end < result.items.size())
      result.items[end].freedBytes += outputBytes;
  }
}

std::optional<LabelProblem> fsdp::schedule::makeLabelProblem(const Problem &problem) {
  if (problem.uses.size() > kMostMembers || problem.reductions.size() > kMostMembers ||
      (!problem.oneLane && problem.contention.lanes > 1) || problem.contention.computation > 1 ||
      !problem.coalesces || problem.meshes[0].gatherCost.curve ||
      problem.meshes[0].reduceCost.curve ||
      problem.contention.gathers != problem.contention.reductions ||
      (!problem.oneLane && problem.contention.gathers != problem.contention.several))
    return std::nullopt;
  LabelProblem result;
  size_t n = problem.operations.size();
  for (const Operation &operation : problem.operations)
    result.items.push_back({operation});
  result.remainingNs.assign(n + 1, 0);
  for (size_t i = n; i-- > 0;)
    result.remainingNs[i] = result.remainingNs[i + 1] + problem.operations[i].durationNs;
  CollectiveWindows windows = findCollectiveWindows(problem);
  addUses(problem, windows, result);
  addReductions(problem, windows, result);
  result.gatherCost = problem.meshes[0].gatherCost;
  result.reduceCost = problem.meshes[0].reduceCost;
  result.oneLane = problem.oneLane;
  result.computeContention = problem.contention.gathers;
  result.capBytes = problem.memoryCapBytes.value_or(kUnlimitedBytes);
  return result;
}
