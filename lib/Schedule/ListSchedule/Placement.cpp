//===- Placement.cpp - Positions for tasks --------------------------------===//

#include "Placement.h"

#include <algorithm>
#include <numeric>

using namespace fsdp::schedule;

Placement::Placement(const TaskContext &context, const Decisions &decisions, Tasks &tasks)
    : problem(context.problem), context(context), decisions(decisions), tasks(tasks),
      streams(problem), reductionLane(problem.oneLane || decisions.shareLane ? 0 : 1),
      isShared(reductionLane == 0), byFirst(tasks.gathers.size()),
      taskOfUse(problem.uses.size(), UINT32_MAX), unlaunched(tasks.reductions),
      pending(tasks.reductions), goingOn(tasks.reductions) {
  plan.kept = decisions.kept;
  plan.chunked = decisions.chunked;
  plan.shareLane = decisions.shareLane;
  std::iota(byFirst.begin(), byFirst.end(), 0);
  std::stable_sort(byFirst.begin(), byFirst.end(), [&](uint32_t a, uint32_t b) {
    return tasks.gathers[a].first < tasks.gathers[b].first;
  });
  for (uint32_t i = 0; i < tasks.gathers.size(); ++i)
    for (uint32_t use : tasks.gathers[i].uses)
      taskOfUse[use] = i;
}

bool Placement::run() {
  for (position = 0; position < problem.operations.size(); skipQuiet())
    if (!issue())
      return false;
  return true;
}

/// Places launches and waits at the current position, and runs the operation after it.
bool Placement::issue() {
  held += tasks.changes[position];
  for (; nextReady < tasks.reductions.size() && tasks.reductions[nextReady].ready == position;
       ++nextReady)
    unlaunched.push(nextReady);
  if (!(pending.isEmpty() && unlaunched.isEmpty()) && !advanceReductions())
    return false;
  launchNeededGathers();
  if (nextAhead < tasks.gathers.size())
    launchAhead();
  waitForGathers();
  waitForReplicas();
  streams.compute(operation().durationNs);
  return true;
}

/// Advances to the next position at which a launch or a wait is possible. Most positions have none.
void Placement::skipQuiet() {
  uint32_t nextEvent = findNextEvent();
  skipLaunched();
  bool isReducing = !(pending.isEmpty() && unlaunched.isEmpty());
  uint32_t nextGather = UINT32_MAX;
  if (nextAhead < tasks.gathers.size())
    nextGather = tasks.gathers[nextAhead].earliest;
  ++position;
  if (uint32_t end = std::min(nextEvent, nextGather); !isReducing && position < end) {
    held +=
        std::accumulate(tasks.changes.begin() + position, tasks.changes.begin() + end, int64_t(0));
    streams.compute(context.beginNs[end] - context.beginNs[position]);
    position = end;
  }
  for (; position < nextEvent; ++position) {
    int64_t change = tasks.changes[position];
    held += change;
    if ((isReducing || position >= nextGather) && !isQuiet(position >= nextGather)) {
      held -= change;
      return;
    }
    streams.compute(operation().durationNs);
  }
}

/// The next position at which a reduction is ready or due, or a use begins.
uint32_t Placement::findNextEvent() const {
  uint32_t next = problem.operations.size();
  if (nextReady < tasks.reductions.size())
    next = std::min(next, tasks.reductions[nextReady].ready);
  if (nextUse < problem.uses.size())
    next = std::min(next, problem.uses[nextUse].first);
  return std::min(
      {next, unlaunched.getFirstUpdate(), pending.getFirstUpdate(), goingOn.getFirstUpdate()});
}

/// Whether nothing can be launched or waited for at this position. Gathers count if `mayGather`.
bool Placement::isQuiet(bool mayGather) const {
  double endNs = streams.getNow() + operation().durationNs * problem.contention.several;
  if (mayGather && streams.findEndOfLane(0) <= endNs)
    return false;
  if (!unlaunched.isEmpty()) {
    bool mayLaunch = tasks.reductions[unlaunched.front()].gate <= position;
    if ((mayLaunch && streams.findEndOfLane(reductionLane) <= endNs) || !canPutOff())
      return false;
  }
  return pending.isEmpty() || (!hasEnded() && fits(operation().liveBytes + held));
}
