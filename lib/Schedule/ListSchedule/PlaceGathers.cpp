//===- PlaceGathers.cpp - When gathers are launched -----------------------===//

#include "Placement.h"

#include <algorithm>

using namespace fsdp::schedule;

int64_t Placement::findNeededBytes() const {
  int64_t bytes = 0;
  for (size_t i = nextNeeded; i < byFirst.size(); ++i) {
    const GatherTask &task = tasks.gathers[byFirst[i]];
    if (task.first != position)
      break;
    if (!task.isLaunched)
      bytes += task.bytes;
  }
  return bytes;
}

double Placement::findOperationEnd() const {
  double startNs = streams.getNow();
  bool isLaneNeeded = false;
  for (uint32_t use = nextUse; use < problem.uses.size() && problem.uses[use].first == position;
       ++use) {
    uint32_t index = taskOfUse[use];
    if (index == UINT32_MAX)
      continue;
    const GatherTask &task = tasks.gathers[index];
    if (!task.isLaunched)
      isLaneNeeded = true;
    else if (!streams.hasEnded(task.ticket))
      startNs = std::max(startNs, streams.findEnd(task.ticket));
  }
  if (isLaneNeeded)
    startNs = std::max(startNs, streams.findEndOfLane(0));
  for (uint32_t index : goingOn)
    if (const ReductionTask &task = tasks.reductions[index];
        task.update == position && !streams.hasEnded(task.acrossTicket))
      startNs = std::max(startNs, streams.hasEnded(task.ticket)
                                      ? streams.findEnd(task.acrossTicket)
                                      : streams.findEnd(task.ticket) + task.across->totalNs());
  // The end matters only while a lane is busy; computation is slower then.
  return startNs + operation().durationNs * problem.contention.gathers;
}

void Placement::launch(GatherTask &task) {
  task.isLaunched = true;
  task.ticket = streams.launch(0, task.duration, gatherWork(task.byCopyEngine));
  held += task.bytes;
  tasks.room.take(position, task.first, task.bytes);
  plan.gathers.push_back({task.uses, position, task.byCopyEngine});
}

void Placement::launchNeededGathers() {
  for (; nextNeeded < byFirst.size(); ++nextNeeded) {
    GatherTask &task = tasks.gathers[byFirst[nextNeeded]];
    if (task.first != position)
      break;
    if (!task.isLaunched)
      launch(task);
  }
}

/// Whether memory for the gather's copy is free from this position to its use.
bool Placement::isLaunchable(GatherTask &task) {
  if (task.earliest > position)
    return false;
  // Room only shrinks, so a gather that does not fit now fits at the earliest after the obstacle.
  if (task.checkedAt != plan.gathers.size()) {
    task.earliest = tasks.room.findBehindObstacle(position, task.first, task.bytes);
    if (task.earliest > position)
      return false;
    task.checkedAt = plan.gathers.size();
  }
  // The copy must also fit beside pending reductions, and leave room for put-off reductions.
  while (!fits(operation().liveBytes + held + findNeededBytes() + task.bytes))
    if (!releaseEnded())
      return false;
  held += task.bytes;
  bool canGoOn = unlaunched.isEmpty() || canPutOff();
  held -= task.bytes;
  return canGoOn;
}

void Placement::launchAhead() {
  skipLaunched();
  if (nextAhead == tasks.gathers.size() || tasks.gathers[nextAhead].earliest > position)
    return;
  double endNs = findOperationEnd();
  for (; nextAhead < tasks.gathers.size(); skipLaunched()) {
    GatherTask &task = tasks.gathers[nextAhead];
    if (streams.findEndOfLane(0) > endNs || !isLaunchable(task))
      return;
    launch(task);
  }
}

void Placement::waitForGathers() {
  for (; nextUse < problem.uses.size() && problem.uses[nextUse].first == position; ++nextUse)
    if (uint32_t task = taskOfUse[nextUse]; task != UINT32_MAX)
      streams.waitFor(tasks.gathers[task].ticket);
}
