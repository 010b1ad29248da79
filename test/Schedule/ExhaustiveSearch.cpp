//===- ExhaustiveSearch.cpp - All plans of a tiny problem -----------------===//

#include "ExhaustiveSearch.h"

#include "fsdp/Schedule/Simulate.h"

#include <algorithm>
#include <limits>

using namespace fsdp::schedule;

namespace {

class Enumerator {
public:
  Enumerator(const Problem &problem, const std::function<void(const Plan &)> &visit)
      : problem(problem), visit(visit), previous(problem.previousUses()) {}

  void keepFrom(uint32_t use);

private:
  void chunkFrom(uint32_t use);
  void gather(uint32_t remaining); // a set of uses
  void reduce(uint32_t remaining); // a set of reductions
  void finish();

  const Problem &problem;
  const std::function<void(const Plan &)> &visit;
  const std::vector<int32_t> previous;
  Plan plan;
};

} // namespace

static std::vector<uint32_t> listMembers(uint32_t set) {
  std::vector<uint32_t> members;
  for (uint32_t i = 0; i < 32; ++i)
    if (set >> i & 1)
      members.push_back(i);
  return members;
}

void Enumerator::keepFrom(uint32_t use) {
  if (use == 0)
    plan.kept.assign(problem.uses.size(), 0);
  if (use == problem.uses.size()) {
    plan.chunked.clear();
    chunkFrom(0);
    return;
  }
  KeepRule rule = problem.groups[problem.uses[use].group].keep;
  for (uint8_t kept : {0, 1}) {
    if (kept && (previous[use] < 0 || rule == KeepRule::Never))
      continue;
    if (!kept && previous[use] >= 0 && rule == KeepRule::Always)
      continue;
    plan.kept[use] = kept;
    keepFrom(use + 1);
  }
}

void Enumerator::chunkFrom(uint32_t use) {
  if (use == problem.uses.size()) {
    uint32_t gathered = 0;
    for (uint32_t i = 0; i < use; ++i)
      gathered |= uint32_t(!plan.kept[i]) << i;
    gather(gathered);
    return;
  }
  chunkFrom(use + 1);
  if (plan.kept[use] || previous[use] < 0)
    return;
  std::vector<uint8_t> before = plan.chunked;
  for (size_t i = 0; i < problem.groups[problem.uses[use].group].chunks.size(); ++i) {
    plan.chunked.resize(problem.uses.size());
    plan.chunked[use] = i + 1;
    chunkFrom(use + 1);
    plan.chunked = before;
  }
}

void Enumerator::gather(uint32_t remaining) {
  if (remaining == 0) {
    reduce((uint32_t(1) << problem.reductions.size()) - 1);
    return;
  }
  // Any nonempty subset may come next on the lane.
  for (uint32_t set = remaining; set != 0; set = (set - 1) & remaining) {
    uint32_t first = plan.gathers.empty() ? 0 : plan.gathers.back().launch;
    uint32_t last = UINT32_MAX;
    std::vector<uint32_t> members = listMembers(set);
    if (std::any_of(members.begin(), members.end(), [&](uint32_t use) {
          return plan.chunkedOf(use) != plan.chunkedOf(members.front()) ||
                 &problem.meshOfUse(use) != &problem.meshOfUse(members.front());
        }))
      continue;
    for (uint32_t use : members) {
      if (previous[use] >= 0)
        first = std::max(first, problem.releasedAt(previous[use], plan.chunkedOf(use)));
      last = std::min(last, problem.uses[use].first);
    }
    const Mesh &mesh = problem.meshOfUse(members.front());
    const bool mayCopy = mesh.copyEngineCost && !plan.isChunked(members.front());
    for (uint32_t launch = first; launch <= last && last != UINT32_MAX; ++launch)
      for (bool byCopyEngine : {false, true}) {
        if (byCopyEngine ? !mayCopy : mayCopy && mesh.copyEngineOnly)
          continue;
        plan.gathers.push_back({members, launch, byCopyEngine});
        gather(remaining & ~set);
        plan.gathers.pop_back();
      }
  }
}

void Enumerator::reduce(uint32_t remaining) {
  if (remaining == 0) {
    finish();
    return;
  }
  for (uint32_t set = remaining; set != 0; set = (set - 1) & remaining) {
    uint32_t first = 0, firstWait = 0, last = UINT32_MAX;
    std::vector<uint32_t> members = listMembers(set);
    if (std::any_of(members.begin(), members.end(), [&](uint32_t index) {
          return &problem.meshOfReduction(index) != &problem.meshOfReduction(members.front());
        }))
      continue;
    if (!plan.reductions.empty()) {
      first = plan.reductions.back().launch;
      firstWait = plan.reductions.back().wait;
    }
    for (uint32_t index : members) {
      first = std::max(first, problem.reductions[index].ready);
      last = std::min(last, problem.reductions[index].update);
    }
    for (uint32_t launch = first; launch <= last; ++launch)
      for (uint32_t wait = std::max(launch, firstWait); wait <= last; ++wait) {
        plan.reductions.push_back({members, launch, wait});
        reduce(remaining & ~set);
        plan.reductions.pop_back();
      }
  }
}

void Enumerator::finish() {
  for (bool shareLane : {false, true}) {
    plan.shareLane = shareLane;
    visit(plan);
  }
}

void fsdp::schedule::forEachPlan(const Problem &problem,
                                 const std::function<void(const Plan &)> &visit) {
  Enumerator(problem, visit).keepFrom(0);
}

std::vector<double> fsdp::schedule::findOptima(const Problem &problem,
                                               const std::vector<int64_t> &capsBytes) {
  std::vector<double> optima(capsBytes.size(), std::numeric_limits<double>::infinity());
  forEachPlan(problem, [&](const Plan &plan) {
    if (plan.shareLane && problem.oneLane)
      return;
    int64_t peakBytes = peakOf(problem, plan).bytes;
    bool isNeeded = false;
    for (int64_t capBytes : capsBytes)
      isNeeded |= peakBytes <= capBytes;
    if (!isNeeded)
      return;
    double makespan = makespanNs(problem, plan);
    for (size_t i = 0; i < capsBytes.size(); ++i)
      if (peakBytes <= capsBytes[i])
        optima[i] = std::min(optima[i], makespan);
  });
  return optima;
}
