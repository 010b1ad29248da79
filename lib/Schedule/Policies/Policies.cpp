//===- Policies.cpp - Orders that need no search --------------------------===//

#include "fsdp/Schedule/Policies.h"

#include "ListSchedule/Tasks.h"
#include "Model/LiveBytes.h"

#include <algorithm>

using namespace fsdp::schedule;

std::string_view fsdp::schedule::getName(Policy policy) {
  return policy == Policy::Fsdp2 ? "fsdp2" : "asap";
}

//===----------------------------------------------------------------------===//
// FSDP2
//===----------------------------------------------------------------------===//

/// By use: whether it is the backward use after which the group's gradients are reduced. A
/// microbatch whose gradients are not reduced has no such uses.
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

/// The number of uses by which a gather of the forward may start ahead of its own use on a device.
static constexpr size_t kForwardUsesAhead = 2;

/// By use: the launch of its gather. The first backward use is gathered where it begins. Each other
/// backward use is gathered where the backward use before it begins: the pre-backward hook unshards
/// the group that ran before it in the forward. Policies.h describes the forward.
static std::vector<uint32_t> findFsdp2Launches(const Problem &problem) {
  std::vector<uint8_t> isBackward = findBackwardUses(problem);
  std::vector<int32_t> previous = problem.previousUses();
  std::vector<uint32_t> launches(problem.uses.size());
  size_t forwardUses = 0; // in a row, before this one
  for (size_t i = 0; i < launches.size(); ++i) {
    size_t ahead = i > 0 && isBackward[i] && isBackward[i - 1];
    // The second use of a group without a reduction is a backward use, too.
    if (!isBackward[i] && (previous[i] < 0 || isBackward[previous[i]])) {
      ahead = problem.onGpus ? std::min(forwardUses, kForwardUsesAhead) : 0;
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
  plan.shareLane = problem.onGpus;
  std::vector<uint32_t> launches = findFsdp2Launches(problem);
  for (uint32_t i = 0; i < launches.size(); ++i)
    if (!plan.kept[i])
      plan.gathers.push_back({{i}, launches[i], problem.goesByCopyEngine(i, false, false)});
  // At most one reduction is pending: the next reduction waits for it.
  for (uint32_t i = 0; i < problem.reductions.size(); ++i) {
    uint32_t wait = problem.reductions[i].update;
    if (i + 1 < problem.reductions.size())
      wait = std::min(wait, problem.reductions[i + 1].ready);
    plan.reductions.push_back({{i}, problem.reductions[i].ready, wait});
  }
  return plan;
}

//===----------------------------------------------------------------------===//
// As soon as possible
//===----------------------------------------------------------------------===//

/// Keeps the copies that must be kept, and copies that the next operation uses again, which takes
/// no extra memory.
static std::vector<uint8_t> keepForFree(const Problem &problem) {
  std::vector<int32_t> previous = problem.previousUses();
  std::vector<uint8_t> byRule = keepByRule(problem), kept = byRule;
  for (uint32_t i = 0; i < kept.size(); ++i)
    if (keepRuleOf(problem, i, previous[i]) == KeepRule::Free)
      kept[i] = problem.uses[previous[i]].last + 1 == problem.uses[i].first;
  // A reduction between the two uses may need that memory.
  return makeTasks(TaskContext(problem), decideSingly(problem, kept)) ? kept : byRule;
}

Decisions fsdp::schedule::decideByPolicy(const Problem &problem, Policy policy) {
  if (policy == Policy::Fsdp2) {
    Decisions decisions = decideSingly(problem, keepByRule(problem), findFsdp2Launches(problem));
    decisions.gathersGoFirst = true;
    decisions.shareLane = problem.onGpus;
    return decisions;
  }
  return decideSingly(problem, keepForFree(problem));
}

std::optional<Plan> fsdp::schedule::planByPolicy(const Problem &problem, Policy policy) {
  if (policy == Policy::Fsdp2)
    if (Plan plan = planFsdp2(problem); !verify(problem, plan))
      return plan;
  return listSchedule(problem, decideByPolicy(problem, policy)).plan;
}
