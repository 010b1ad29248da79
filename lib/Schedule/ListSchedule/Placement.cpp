//===- Placement.cpp - Positions for tasks --------------------------------===//

#include "Placement.h"

#include <algorithm>
#include <numeric>

using namespace fsdp::schedule;

Placement::Placement(const TaskContext &context, const Decisions &decisions, Tasks &tasks)
    : problem(context.problem), context(context), decisions(decisions), tasks(tasks),
      streams(problem), reductionLane(problem.oneLane || decisions.shareLane ? 0 : 1),
      isShared(reductionLane == 0), byFirst(tasks.gathers.size()),
      taskOfUse(problem.uses.size(), UINT32_MAX) {
  plan.kept = decisions.kept;
  plan.chunked = decisions.chunked;
  plan.shareLane = decisions.shareLane;
  std::iota(byFirst.begin(), byFirst.end(), 0);
  std::ranges::stable_sort(byFirst, {}, [&](uint32_t index) { return tasks.gathers[index].first; });
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
    unlaunched.push_back(nextReady);
  if (!(pending.empty() && unlaunched.empty()) && !advanceReductions())
    return false;
  launchNeededGathers();
  if (nextAhead < tasks.gathers.size())
    launchAhead();
  waitForGathers();
  waitForReplicas();
  streams.compute(operation().durationNs);
  return true;
}

uint32_t Placement::firstUpdateOf(const std::vector<uint32_t> &reductions) const {
  uint32_t first = UINT32_MAX;
  for (uint32_t index : reductions)
    first = std::min(first, tasks.reductions[index].update);
  return first;
}

/// Advances to the next position at which a launch or a wait is possible. Most positions have none.
void Placement::skipQuiet() {
  uint32_t nextEvent = findNextEvent();
  skipLaunched();
  bool isReducing = !(pending.empty() && unlaunched.empty());
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
      {next, firstUpdateOf(unlaunched), firstUpdateOf(pending), firstUpdateOf(goingOn)});
}

/// Whether nothing can be launched or waited for at this position. Gathers count if `mayGather`.
bool Placement::isQuiet(bool mayGather) const {
  double endNs = streams.getNow() + operation().durationNs * problem.contention.several;
  if (mayGather && streams.findEndOfLane(0) <= endNs)
    return false;
  if (!unlaunched.empty()) {
    bool mayLaunch = tasks.reductions[unlaunched.front()].gate <= position;
    if ((mayLaunch && streams.findEndOfLane(reductionLane) <= endNs) || !canPutOff())
      return false;
  }
  return pending.empty() || (!hasEnded() && fits(operation().liveBytes + held));
}

//===----------------------------------------------------------------------===//
// Gathers
//===----------------------------------------------------------------------===//

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
  bool canGoOn = unlaunched.empty() || canPutOff();
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

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

void Placement::launch(ReductionTask &task) {
  task.ticket = streams.launch(reductionLane, task.duration, CollectiveWork::Reduction);
  if (task.across) {
    task.acrossTicket = streams.launchAcross(reductionLane, *task.across);
    goingOn.push_back(&task - tasks.reductions.data());
  }
  held += task.outputBytes;
  pending.push_back(&task - tasks.reductions.data());
  plan.reductions.push_back({task.reductions, position, 0});
}

void Placement::waitForOldest() {
  const ReductionTask &task = tasks.reductions[pending.front()];
  held -= task.inputBytes;
  streams.waitFor(task.ticket);
  plan.reductions[plan.reductions.size() - pending.size()].wait = position;
  pending.erase(pending.begin());
}

/// Waits for the all-reduces over replicas that an update at this position needs.
void Placement::waitForReplicas() {
  while (firstUpdateOf(goingOn) == position) {
    auto due = std::ranges::find(goingOn, position,
                                 [&](uint32_t index) { return tasks.reductions[index].update; });
    streams.waitFor(tasks.reductions[*due].acrossTicket);
    goingOn.erase(due);
  }
}

/// Waits for all reductions that have ended. These waits take no time and free memory. False if no
/// reduction has ended.
bool Placement::releaseEnded() {
  bool isAny = false;
  while (hasEnded()) {
    waitForOldest();
    isAny = true;
  }
  return isAny;
}

/// Launches the first ready reduction that has room. False if no ready reduction has room.
bool Placement::launchFirstWithRoom() {
  auto it = std::ranges::find_if(unlaunched,
                                 [&](uint32_t index) { return hasRoom(tasks.reductions[index]); });
  if (it == unlaunched.end())
    return false;
  launch(tasks.reductions[*it]);
  unlaunched.erase(it);
  return true;
}

/// Whether the lane of reductions will be free before the next operation ends.
bool Placement::canStart() const {
  return streams.findEndOfLane(reductionLane) <= findOperationEnd();
}

/// Whether all ready reductions may be launched at the next position instead. The coming operation
/// must have room for their inputs, and the next position room to launch them one after another.
bool Placement::canPutOff() const {
  if (position + 1 == problem.operations.size())
    return false;
  if (firstUpdateOf(unlaunched) == position)
    return false;
  int64_t bytes = held + findNeededBytes(), mostOutputBytes = 0;
  if (!fits(operation().liveBytes + bytes))
    return false;
  for (uint32_t index : pending)
    bytes -= tasks.reductions[index].inputBytes;
  for (uint32_t index : unlaunched)
    mostOutputBytes = std::max(mostOutputBytes, tasks.reductions[index].outputBytes);
  return fits(problem.operations[position + 1].carriedBytes + bytes + tasks.changes[position + 1] +
              mostOutputBytes);
}

/// Whether a gather that could start now on the shared lane goes before a reduction.
bool Placement::isGatherFirst() {
  if (!isShared || !decisions.gathersGoFirst)
    return false;
  skipLaunched();
  return nextAhead < tasks.gathers.size() &&
         (tasks.gathers[nextAhead].first == position || isLaunchable(tasks.gathers[nextAhead]));
}

/// Launches ready reductions that can start at once or that cannot be put off.
void Placement::launchWanted() {
  while (!unlaunched.empty()) {
    const ReductionTask &task = tasks.reductions[unlaunched.front()];
    // If the operation has no room for the output as well, the reduction's wait follows at once.
    bool hasRoomForAll =
        hasRoom(task) && fits(operation().liveBytes + held + findNeededBytes() + task.outputBytes);
    if (!hasRoomForAll && releaseEnded())
      continue;
    bool isWanted = position >= task.gate && hasRoomForAll && canStart() && !isGatherFirst();
    if (!isWanted && canPutOff())
      return;
    if (!isWanted && releaseEnded())
      continue;
    if (launchFirstWithRoom())
      continue;
    if (pending.empty())
      return; // The schedule of least memory puts this reduction off as well.
    waitForOldest();
  }
}

/// Launches and waits for the reductions that an update at this position needs.
bool Placement::updateDue() {
  while (firstUpdateOf(unlaunched) == position) {
    if (launchFirstWithRoom())
      continue;
    if (pending.empty())
      return false;
    waitForOldest();
  }
  while (firstUpdateOf(pending) == position)
    waitForOldest();
  return true;
}

/// Waits for reductions until the coming operation fits into memory beside the pending reductions.
bool Placement::makeRoom() {
  while (!fits(operation().liveBytes + held + findNeededBytes())) {
    if (!pending.empty())
      waitForOldest();
    else if (!launchFirstWithRoom())
      return false;
  }
  return true;
}

bool Placement::advanceReductions() {
  while (firstUpdateOf(pending) == position)
    waitForOldest();
  while (true) {
    double beforeNs = streams.getNow();
    releaseEnded();
    launchWanted();
    if (!updateDue() || !makeRoom())
      return false;
    // After a wait that took time, more reductions can start.
    if (streams.getNow() == beforeNs || unlaunched.empty())
      return true;
  }
}
