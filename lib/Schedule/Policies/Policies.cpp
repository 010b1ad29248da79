//===- Policies.cpp - The decisions of others, for comparison -------------===//

#include "fsdp/Schedule/Policies.h"

#include "ListSchedule/Tasks.h"

#include <algorithm>
#include <limits>
#include <numeric>

using namespace fsdp::schedule;

std::string_view fsdp::schedule::getName(Policy policy) {
  switch (policy) {
  case Policy::Fsdp2:
    return "fsdp2";
  case Policy::Asap:
    return "asap";
  case Policy::XlaLatencyHiding:
    return "xla-lhs";
  case Policy::DeepCompile:
    return "deepcompile";
  case Policy::Inductor:
    return "inductor";
  }
  return "";
}

/// Keeps what must be kept.
static std::vector<uint8_t> keepByRule(const Problem &problem) {
  std::vector<int32_t> previous = problem.previousUses();
  std::vector<uint8_t> kept(problem.uses.size());
  for (size_t i = 0; i < kept.size(); ++i)
    kept[i] = previous[i] >= 0 && problem.groups[problem.uses[i].group].keep == KeepRule::Always;
  return kept;
}

/// Every use that is not kept is gathered alone from its gate on, every reduction happens alone.
static Decisions decideSingly(const Problem &problem, std::vector<uint8_t> kept,
                              const std::vector<uint32_t> &gates) {
  Decisions decisions;
  for (uint32_t i = 0; i < kept.size(); ++i)
    if (!kept[i])
      decisions.gathers.push_back({{i}, gates[i]});
  for (uint32_t i = 0; i < problem.reductions.size(); ++i)
    decisions.reductions.push_back({i});
  decisions.kept = std::move(kept);
  return decisions;
}

//===----------------------------------------------------------------------===//
// FSDP2
//===----------------------------------------------------------------------===//

/// By use: whether it is the one whose gradients are reduced. A microbatch whose gradients are not
/// reduced has no such uses.
static std::vector<uint8_t> findBackwardUses(const Problem &problem) {
  std::vector<uint8_t> isBackward(problem.uses.size());
  std::vector<int32_t> latest(problem.groups.size(), -1);
  size_t use = 0;
  for (const Reduction &reduction : problem.reductions) {
    for (; use < problem.uses.size() && problem.uses[use].first < reduction.ready; ++use)
      latest[problem.uses[use].group] = int32_t(use);
    if (latest[reduction.group] >= 0)
      isBackward[latest[reduction.group]] = true;
  }
  return isBackward;
}

/// How many uses ahead of its own a gather of the forward may begin on a device.
static constexpr size_t kForwardUsesAhead = 2;

/// By use: the first backward gathers where it is used, the others where the backward use before
/// them begins (the pre-backward hook unshards the group that ran forward before it). For the
/// forward see Policies.h.
static std::vector<uint32_t> findFsdp2Launches(const Problem &problem) {
  std::vector<uint8_t> isBackward = findBackwardUses(problem);
  std::vector<int32_t> previous = problem.previousUses();
  std::vector<uint32_t> launches(problem.uses.size());
  size_t forwardUses = 0; // in a row, before this one
  for (size_t i = 0; i < launches.size(); ++i) {
    size_t ahead = i > 0 && isBackward[i] && isBackward[i - 1];
    // The second use of a group without a reduction is one of the backward, too.
    if (!isBackward[i] && (previous[i] < 0 || isBackward[previous[i]])) {
      ahead = problem.hostRunsAhead ? std::min(forwardUses, kForwardUsesAhead) : 0;
      ++forwardUses;
    } else {
      forwardUses = 0;
    }
    launches[i] = problem.uses[i - ahead].first;
    if (previous[i] >= 0)
      launches[i] = std::max(launches[i], problem.uses[previous[i]].last + 1);
    if (i > 0)
      launches[i] = std::max(launches[i], launches[i - 1]);
  }
  return launches;
}

static Plan planFsdp2(const Problem &problem) {
  Plan plan;
  plan.kept = keepByRule(problem);
  std::vector<uint32_t> launches = findFsdp2Launches(problem);
  for (uint32_t i = 0; i < launches.size(); ++i)
    if (!plan.kept[i])
      plan.gathers.push_back({{i}, launches[i]});
  // One reduction is pending: the next one waits for it.
  for (uint32_t i = 0; i < problem.reductions.size(); ++i) {
    uint32_t wait = problem.reductions[i].update;
    if (i + 1 < problem.reductions.size())
      wait = std::min(wait, problem.reductions[i + 1].ready);
    plan.reductions.push_back({{i}, problem.reductions[i].ready, wait});
  }
  return plan;
}

//===----------------------------------------------------------------------===//
// The others
//===----------------------------------------------------------------------===//

/// Keeps what must be kept, and copies that are used again at once, which takes no memory.
static std::vector<uint8_t> keepForFree(const Problem &problem) {
  std::vector<int32_t> previous = problem.previousUses();
  std::vector<uint8_t> byRule = keepByRule(problem), kept = byRule;
  for (size_t i = 0; i < kept.size(); ++i)
    if (previous[i] >= 0 && problem.groups[problem.uses[i].group].keep == KeepRule::Free)
      kept[i] = problem.uses[previous[i]].last + 1 == problem.uses[i].first;
  // But between the two a reduction may need the room.
  std::vector<uint32_t> gates(kept.size());
  return makeTasks(TaskContext(problem), decideSingly(problem, kept, gates)) ? kept : byRule;
}

/// By use: as late as hides the gather, on a lane that does one after the other (XLA's scheduler
/// works from the end of the program and places a start when its latency is covered).
static std::vector<uint32_t> findLatestStarts(const Problem &problem,
                                              const std::vector<uint8_t> &kept) {
  std::vector<double> beginNs(problem.operations.size() + 1);
  for (size_t i = 0; i < problem.operations.size(); ++i)
    beginNs[i + 1] = beginNs[i] + problem.operations[i].durationNs;
  std::vector<uint32_t> gates(problem.uses.size());
  double nextNs = std::numeric_limits<double>::infinity();
  for (size_t i = gates.size(); i-- > 0;) {
    if (kept[i])
      continue;
    const Use &use = problem.uses[i];
    double endNs = std::min(beginNs[use.first], nextNs);
    nextNs = endNs - problem.gatherCost.durationNs(problem.groups[use.group].gatheredBytes);
    auto after = std::upper_bound(beginNs.begin(), beginNs.end(), nextNs);
    if (after != beginNs.begin())
      gates[i] = std::min(use.first, uint32_t(after - beginNs.begin() - 1));
  }
  return gates;
}

/// Keeps copies while the peak that it expects stays in its budget, those first that save most time
/// per byte; gathers as early as the budget allows.
static Decisions decideDeepCompile(const Problem &problem, std::vector<uint8_t> kept) {
  std::vector<int32_t> previous = problem.previousUses();
  std::vector<uint32_t> candidates;
  for (uint32_t i = 0; i < kept.size(); ++i)
    if (previous[i] >= 0 && !kept[i] &&
        problem.groups[problem.uses[i].group].keep == KeepRule::Free)
      candidates.push_back(i);
  auto bytesOf = [&](uint32_t use) {
    return problem.groups[problem.uses[use].group].gatheredBytes;
  };
  auto savingOf = [&](uint32_t use) {
    int64_t bytes = std::max<int64_t>(bytesOf(use), 1);
    return problem.gatherCost.durationNs(bytes) / double(bytes);
  };
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](uint32_t a, uint32_t b) { return savingOf(a) > savingOf(b); });
  std::optional<int64_t> budgetBytes;
  if (problem.memoryCapBytes)
    budgetBytes = *problem.memoryCapBytes / 10 * 9;
  int64_t expectedBytes = problem.minimumPeak().bytes;
  for (uint32_t use : candidates) {
    expectedBytes += bytesOf(use);
    if (budgetBytes && expectedBytes > *budgetBytes)
      break;
    kept[use] = true;
  }
  Decisions decisions = decideSingly(problem, kept, std::vector<uint32_t>(kept.size()));
  decisions.priority = LanePriority::Gathers;
  decisions.memoryCapBytes = budgetBytes;
  return decisions;
}

Decisions fsdp::schedule::decideByPolicy(const Problem &problem, Policy policy) {
  std::vector<uint8_t> kept = policy == Policy::Fsdp2 ? keepByRule(problem) : keepForFree(problem);
  switch (policy) {
  case Policy::Asap:
    break;
  case Policy::Fsdp2: {
    Decisions decisions = decideSingly(problem, kept, findFsdp2Launches(problem));
    decisions.priority = LanePriority::Gathers;
    return decisions;
  }
  case Policy::XlaLatencyHiding: {
    Decisions decisions = decideSingly(problem, kept, findLatestStarts(problem, kept));
    decisions.priority = LanePriority::Reductions;
    return decisions;
  }
  case Policy::DeepCompile:
    return decideDeepCompile(problem, kept);
  case Policy::Inductor: {
    // Its reordering passes may add 5 % or 1 GiB to the peak.
    Decisions decisions = decideSingly(problem, kept, findLatestStarts(problem, kept));
    int64_t minimum = problem.minimumPeak().bytes;
    decisions.memoryCapBytes = minimum + std::max<int64_t>(minimum / 20, int64_t(1) << 30);
    return decisions;
  }
  }
  return decideSingly(problem, kept, std::vector<uint32_t>(kept.size()));
}

std::optional<Plan> fsdp::schedule::planByPolicy(const Problem &problem, Policy policy) {
  if (policy == Policy::Fsdp2)
    if (Plan plan = planFsdp2(problem); !verify(problem, plan))
      return plan;
  return listSchedule(problem, decideByPolicy(problem, policy)).plan;
}
