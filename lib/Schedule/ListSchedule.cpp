//===- ListSchedule.cpp - From decisions to positions ---------------------===//
//
// Walks the operations once, on simulated streams. Before each operation it waits for reductions
// that have ended; launches those that are ready and could start before the operation ends; waits
// for more of them if the operation, or an update, needs it; launches the gathers that the
// operation needs; then those that could start before the operation ends and whose memory is there
// until their use, beside the schedule of least memory (Tasks.h) and beside what is pending now.
//
// What has been launched ahead never takes the room of that schedule, so that waiting for all
// reductions always makes room for the next operation.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Schedule/ListSchedule.h"

#include "Tasks.h"
#include "fsdp/Schedule/Simulate.h"

#include <algorithm>
#include <cassert>
#include <deque>
#include <numeric>

using namespace fsdp::schedule;

namespace {

class Scheduler {
public:
  Scheduler(const Problem &problem, const Decisions &decisions, Tasks &tasks);
  /// False if memory runs out, which the tasks' room excludes.
  bool run();
  Plan takePlan() { return std::move(plan); }

private:
  // At the current position, in this order.
  bool advanceReductions();
  void launchNeededGathers();
  void launchAhead();
  void waitForGathers();

  // Reductions.
  void launch(ReductionTask &task);
  void waitForOldest();
  void waitForEnded();
  void launchWanted();
  bool updateDue();
  bool makeRoom();
  bool launchFirstWithRoom();
  bool canStart(const ReductionTask &task) const;
  bool hasRoom(const ReductionTask &task) const {
    return fits(operation().carriedBytes + held + task.outputBytes);
  }
  bool canPutOff() const;
  bool isGatherFirst(const ReductionTask &task);

  // Gathers.
  bool isLaunchable(GatherTask &task);
  void launchBehind(double endNs);
  void skipLaunched() {
    while (nextAhead < tasks.gathers.size() && tasks.gathers[nextAhead].isLaunched)
      ++nextAhead;
  }
  void launch(GatherTask &task, uint32_t from);

  const Operation &operation() const { return problem.operations[position]; }
  bool fits(int64_t bytes) const { return bytes <= tasks.capBytes; }
  /// When the coming operation will end, if nothing else is launched.
  double findOperationEnd() const;
  int64_t findNeededBytes() const;

  const Problem &problem;
  const Decisions &decisions;
  Tasks &tasks;
  Streams streams;
  Plan plan;
  const uint32_t reductionLane;
  const bool isShared;

  uint32_t position = 0;
  /// Copies, inputs of reductions until their wait, shards.
  int64_t held = 0;
  int64_t lastBytes = 0;         // while the operation before this position ran
  std::vector<uint32_t> byFirst; // gather tasks by their first operation
  size_t nextNeeded = 0;         // in byFirst
  size_t nextAhead = 0;          // gather task; all before are launched
  std::vector<uint32_t> taskOfUse;
  uint32_t nextUse = 0;
  size_t nextReady = 0;             // reduction task
  std::vector<uint32_t> unlaunched; // ready reduction tasks
  std::deque<uint32_t> pending;     // launched ones that are not waited for
};

} // namespace

Scheduler::Scheduler(const Problem &problem, const Decisions &decisions, Tasks &tasks)
    : problem(problem), decisions(decisions), tasks(tasks), streams(problem),
      reductionLane(problem.oneLane || decisions.shareLane ? 0 : 1), isShared(reductionLane == 0),
      byFirst(tasks.gathers.size()), taskOfUse(problem.uses.size(), UINT32_MAX) {
  plan.kept = decisions.kept;
  plan.shareLane = decisions.shareLane;
  std::iota(byFirst.begin(), byFirst.end(), 0);
  std::stable_sort(byFirst.begin(), byFirst.end(), [&](uint32_t a, uint32_t b) {
    return tasks.gathers[a].first < tasks.gathers[b].first;
  });
  for (uint32_t i = 0; i < tasks.gathers.size(); ++i)
    for (uint32_t use : tasks.gathers[i].uses)
      taskOfUse[use] = i;
}

bool Scheduler::run() {
  for (position = 0; position < problem.operations.size(); ++position) {
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
    lastBytes = operation().liveBytes + held;
    streams.compute(operation().durationNs);
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

void Scheduler::launch(ReductionTask &task) {
  task.launch = position;
  task.ticket = streams.launch(reductionLane, task.durationNs);
  held += task.outputBytes;
  pending.push_back(&task - tasks.reductions.data());
  plan.reductions.push_back({task.reductions, position, 0});
}

void Scheduler::waitForOldest() {
  const ReductionTask &task = tasks.reductions[pending.front()];
  if (!streams.hasEnded(task.ticket))
    launchBehind(streams.findEnd(task.ticket));
  streams.waitFor(task.ticket);
  held -= task.inputBytes;
  plan.reductions[plan.reductions.size() - pending.size()].wait = position;
  pending.pop_front();
}

void Scheduler::waitForEnded() {
  while (!pending.empty() && streams.hasEnded(tasks.reductions[pending.front()].ticket))
    waitForOldest();
}

/// Launches the first that has room; false if none has.
bool Scheduler::launchFirstWithRoom() {
  auto it = std::find_if(unlaunched.begin(), unlaunched.end(),
                         [&](uint32_t index) { return hasRoom(tasks.reductions[index]); });
  if (it == unlaunched.end())
    return false;
  launch(tasks.reductions[*it]);
  unlaunched.erase(it);
  return true;
}

/// Whether the lane will be free before the coming operation ends.
bool Scheduler::canStart(const ReductionTask &task) const {
  return streams.findEndOfLane(reductionLane) < findOperationEnd();
}

/// Whether all ready reductions may still be unlaunched at the next position: the coming operation
/// has room for their inputs, and the next position for one launch after the other.
bool Scheduler::canPutOff() const {
  if (position + 1 == problem.operations.size())
    return false;
  int64_t outputBytes = 0, pendingBytes = 0;
  for (uint32_t index : unlaunched) {
    const ReductionTask &task = tasks.reductions[index];
    if (task.update == position)
      return false;
    outputBytes = std::max(outputBytes, task.outputBytes);
  }
  for (uint32_t index : pending)
    pendingBytes += tasks.reductions[index].inputBytes;
  int64_t bytes = held + findNeededBytes();
  return fits(operation().liveBytes + bytes) &&
         fits(problem.operations[position + 1].carriedBytes + bytes - pendingBytes +
              tasks.changes[position + 1] + outputBytes);
}

/// Whether a gather that could start now, on the same lane, goes before the reduction.
bool Scheduler::isGatherFirst(const ReductionTask &task) {
  if (!isShared || decisions.priority == LanePriority::Reductions)
    return false;
  size_t index = nextAhead;
  while (index < tasks.gathers.size() && tasks.gathers[index].isLaunched)
    ++index;
  if (index == tasks.gathers.size() ||
      (tasks.gathers[index].first != position && !isLaunchable(tasks.gathers[index])))
    return false;
  if (decisions.priority == LanePriority::Gathers)
    return true;
  // Would one of the next gathers be late?
  constexpr int kHorizon = 6;
  double gatherNs = 0, computeNs = 0; // from this position to `until`
  uint32_t until = position;
  for (int i = 0; i < kHorizon && index < tasks.gathers.size(); ++index) {
    const GatherTask &gather = tasks.gathers[index];
    if (gather.isLaunched)
      continue;
    gatherNs += gather.durationNs;
    for (; until < gather.first; ++until)
      computeNs += problem.operations[until].durationNs * problem.computeContention;
    if (computeNs - gatherNs < task.durationNs)
      return true;
    ++i;
  }
  return false;
}

/// Launches what can start at once, and what cannot be put off.
void Scheduler::launchWanted() {
  while (!unlaunched.empty()) {
    const ReductionTask &task = tasks.reductions[unlaunched.front()];
    // If the operation has no room for its output as well, launching it means to wait for it.
    bool isWanted = hasRoom(task) && canStart(task) && !isGatherFirst(task) &&
                    fits(operation().liveBytes + held + findNeededBytes() + task.outputBytes);
    if (!isWanted && canPutOff())
      return;
    if (launchFirstWithRoom())
      continue;
    if (pending.empty())
      return; // The schedule of least memory puts it off as well.
    waitForOldest();
  }
}

/// Waits for all that an update at this position needs.
bool Scheduler::updateDue() {
  auto isDue = [&](uint32_t index) { return tasks.reductions[index].update == position; };
  while (std::any_of(unlaunched.begin(), unlaunched.end(), isDue)) {
    if (launchFirstWithRoom())
      continue;
    if (pending.empty())
      return false;
    waitForOldest();
  }
  while (std::any_of(pending.begin(), pending.end(), isDue))
    waitForOldest();
  return true;
}

/// Waits until the coming operation fits beside what is pending.
bool Scheduler::makeRoom() {
  while (!fits(operation().liveBytes + held + findNeededBytes())) {
    if (!pending.empty())
      waitForOldest();
    else if (!launchFirstWithRoom())
      return false;
  }
  return true;
}

bool Scheduler::advanceReductions() {
  auto isDue = [&](uint32_t index) { return tasks.reductions[index].update == position; };
  while (std::any_of(pending.begin(), pending.end(), isDue))
    waitForOldest();
  while (true) {
    double beforeNs = streams.getNow();
    waitForEnded();
    launchWanted();
    if (!updateDue() || !makeRoom())
      return false;
    // After standing still, more can start.
    if (streams.getNow() == beforeNs || unlaunched.empty())
      return true;
  }
}

//===----------------------------------------------------------------------===//
// Gathers
//===----------------------------------------------------------------------===//

int64_t Scheduler::findNeededBytes() const {
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

double Scheduler::findOperationEnd() const {
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
  // While a lane is busy, and only then does it matter, computation is slower.
  return startNs + operation().durationNs * problem.computeContention;
}

void Scheduler::launch(GatherTask &task, uint32_t from) {
  task.isLaunched = true;
  task.ticket = streams.launch(0, task.durationNs);
  held += task.bytes;
  for (uint32_t i = from; i < task.first; ++i)
    tasks.room[i] -= task.bytes;
  plan.gathers.push_back({task.uses, from});
}

void Scheduler::launchNeededGathers() {
  for (; nextNeeded < byFirst.size(); ++nextNeeded) {
    GatherTask &task = tasks.gathers[byFirst[nextNeeded]];
    if (task.first != position)
      break;
    if (!task.isLaunched)
      launch(task, position);
  }
}

/// Whether the gather's memory is there from this position to its use.
bool Scheduler::isLaunchable(GatherTask &task) {
  if (task.earliest > position)
    return false;
  // Room only gets less: what is refused once, is refused until the obstacle is behind us.
  if (task.checkedAt != plan.gathers.size()) {
    for (uint32_t i = task.first; i-- > position;)
      if (tasks.room[i] < task.bytes) {
        task.earliest = i + 1;
        return false;
      }
    task.checkedAt = plan.gathers.size();
  }
  // Beside what is pending now, and so that reductions that were put off can go on.
  if (!fits(operation().liveBytes + held + findNeededBytes() + task.bytes))
    return false;
  held += task.bytes;
  bool canGoOn = unlaunched.empty() || canPutOff();
  held -= task.bytes;
  return canGoOn;
}

void Scheduler::launchAhead() {
  skipLaunched();
  double endNs = -1;
  while (nextAhead < tasks.gathers.size()) {
    if (decisions.lookahead == 0 && tasks.gathers[nextAhead].earliest > position)
      return;
    if (endNs < 0)
      endNs = findOperationEnd();
    if (streams.findEndOfLane(0) >= endNs)
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

/// Computation is about to stand still until `endNs`, and a launch here would come after that. What
/// could start in between must have been launched before the last operation: its lane was busy
/// until now, so that nothing else would have been different.
void Scheduler::launchBehind(double endNs) {
  if (!unlaunched.empty() || position == 0 || isShared)
    return;
  for (skipLaunched(); nextAhead < tasks.gathers.size(); skipLaunched()) {
    GatherTask &task = tasks.gathers[nextAhead];
    double laneNs = streams.findEndOfLane(0);
    if (laneNs <= streams.getNow() || laneNs >= endNs || task.earliest >= position ||
        task.first == position || !isLaunchable(task) || tasks.room[position - 1] < task.bytes ||
        !fits(lastBytes + task.bytes))
      return;
    launch(task, position - 1);
    lastBytes += task.bytes;
  }
}

void Scheduler::waitForGathers() {
  for (; nextUse < problem.uses.size() && problem.uses[nextUse].first == position; ++nextUse)
    if (uint32_t task = taskOfUse[nextUse]; task != UINT32_MAX)
      streams.waitFor(tasks.gathers[task].ticket);
}

//===----------------------------------------------------------------------===//
// Interface
//===----------------------------------------------------------------------===//

ListScheduleResult fsdp::schedule::listSchedule(const Problem &problem,
                                                const Decisions &decisions) {
  std::optional<Tasks> tasks = makeTasks(TaskContext(problem), decisions);
  if (!tasks)
    return {};
  Scheduler scheduler(problem, decisions, *tasks);
  if (!scheduler.run()) {
    assert(false && "the tasks' room was not respected");
    return {};
  }
  ListScheduleResult result;
  result.plan = scheduler.takePlan();
  result.makespanNs = makespanNs(problem, *result.plan);
  return result;
}
