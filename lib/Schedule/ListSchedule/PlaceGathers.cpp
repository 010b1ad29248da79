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
                                      : streams.findEnd(task.ticket) + task.acrossNs);
  // The end matters only while a lane is busy, and then computation is slower.
  return startNs + operation().durationNs * problem.computeContention;
}

void Placement::launch(GatherTask &task, uint32_t from) {
  task.isLaunched = true;
  task.ticket = streams.launch(0, task.durationNs);
  held += task.bytes;
  tasks.room.take(from, task.first, task.bytes);
  plan.gathers.push_back({task.uses, from});
}

void Placement::launchNeededGathers() {
  for (; nextNeeded < byFirst.size(); ++nextNeeded) {
    GatherTask &task = tasks.gathers[byFirst[nextNeeded]];
    if (task.first != position)
      break;
    if (!task.isLaunched)
      launch(task, position);
  }
}

/// Whether the gather's memory is there from this position to its use.
bool Placement::isLaunchable(GatherTask &task) {
  if (task.earliest > position)
    return false;
  // Room only shrinks: a gather that does not fit now does not fit before the obstacle has passed.
  if (task.checkedAt != plan.gathers.size()) {
    task.earliest = tasks.room.findBehindObstacle(position, task.first, task.bytes);
    if (task.earliest > position)
      return false;
    task.checkedAt = plan.gathers.size();
  }
  // The copy must also fit beside pending reductions, and leave room for those that were put off.
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
  double endNs = -1;
  while (nextAhead < tasks.gathers.size()) {
    if (decisions.lookahead == 0 && tasks.gathers[nextAhead].earliest > position)
      return;
    if (endNs < 0)
      endNs = findOperationEnd();
    if (streams.findEndOfLane(0) > endNs)
      return;
    uint32_t numOvertaken = 0;
    size_t index = nextAhead;
    for (; index < tasks.gathers.size() && numOvertaken <= decisions.lookahead; ++index) {
      GatherTask &task = tasks.gathers[index];
      if (task.isLaunched)
        continue;
      if (isLaunchable(task))
        break;
      ++numOvertaken;
    }
    if (index == tasks.gathers.size() || numOvertaken > decisions.lookahead)
      return;
    launch(tasks.gathers[index], position);
    skipLaunched();
  }
}

/// Computation is about to wait until `endNs`, and a gather launched here starts after that. A
/// gather that could start before `endNs` is therefore launched before the last operation instead.
/// Its lane was busy until now, so that this changes nothing else.
void Placement::launchBehind(double endNs) {
  if (!unlaunched.isEmpty() || position == 0 || isShared)
    return;
  for (skipLaunched(); nextAhead < tasks.gathers.size(); skipLaunched()) {
    GatherTask &task = tasks.gathers[nextAhead];
    double laneNs = streams.findEndOfLane(0);
    if (laneNs <= streams.getNow() || laneNs >= endNs || task.earliest >= position ||
        task.first == position || !isLaunchable(task) ||
        tasks.room.findBehindObstacle(position - 1, position, task.bytes) == position ||
        !fits(std::max(lastBytes, launchBytes) + task.bytes))
      return;
    launch(task, position - 1);
    lastBytes += task.bytes;
    launchBytes += task.bytes;
  }
}

void Placement::waitForGathers() {
  for (; nextUse < problem.uses.size() && problem.uses[nextUse].first == position; ++nextUse)
    if (uint32_t task = taskOfUse[nextUse]; task != UINT32_MAX)
      streams.waitFor(tasks.gathers[task].ticket);
}
