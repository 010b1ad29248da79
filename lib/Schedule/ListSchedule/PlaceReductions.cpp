//===- PlaceReductions.cpp - When reductions are launched and waited for --===//

#include "Placement.h"

#include <algorithm>

using namespace fsdp::schedule;

void Placement::launch(ReductionTask &task) {
  task.ticket = streams.launch(reductionLane, task.duration, CollectiveWork::Reduction);
  if (task.across) {
    task.acrossTicket = streams.launchAcross(reductionLane, *task.across);
    goingOn.push(&task - tasks.reductions.data());
  }
  held += task.outputBytes;
  pending.push(&task - tasks.reductions.data());
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
  while (goingOn.getFirstUpdate() == position) {
    auto due = std::find_if(goingOn.begin(), goingOn.end(), [&](uint32_t index) {
      return tasks.reductions[index].update == position;
    });
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
  auto it = std::find_if(unlaunched.begin(), unlaunched.end(),
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
  if (unlaunched.getFirstUpdate() == position)
    return false;
  int64_t bytes = held + findNeededBytes();
  return fits(operation().liveBytes + bytes) &&
         fits(problem.operations[position + 1].carriedBytes + bytes - pending.getInputBytes() +
              tasks.changes[position + 1] + unlaunched.getMostOutputBytes());
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
  while (!unlaunched.isEmpty()) {
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
    if (pending.isEmpty())
      return; // The schedule of least memory puts this reduction off as well.
    waitForOldest();
  }
}

/// Launches and waits for the reductions that an update at this position needs.
bool Placement::updateDue() {
  while (unlaunched.getFirstUpdate() == position) {
    if (launchFirstWithRoom())
      continue;
    if (pending.isEmpty())
      return false;
    waitForOldest();
  }
  while (pending.getFirstUpdate() == position)
    waitForOldest();
  return true;
}

/// Waits for reductions until the coming operation fits into memory beside the pending reductions.
bool Placement::makeRoom() {
  while (!fits(operation().liveBytes + held + findNeededBytes())) {
    if (!pending.isEmpty())
      waitForOldest();
    else if (!launchFirstWithRoom())
      return false;
  }
  return true;
}

bool Placement::advanceReductions() {
  while (pending.getFirstUpdate() == position)
    waitForOldest();
  while (true) {
    double beforeNs = streams.getNow();
    releaseEnded();
    launchWanted();
    if (!updateDue() || !makeRoom())
      return false;
    // After a wait that took time, more reductions can start.
    if (streams.getNow() == beforeNs || unlaunched.isEmpty())
      return true;
  }
}
