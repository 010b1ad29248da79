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

#include "ReductionQueue.h"
#include "fsdp/Schedule/Simulate.h"

#include <algorithm>
#include <cassert>
#include <numeric>

using namespace fsdp::schedule;

namespace {

class Scheduler {
public:
  Scheduler(const TaskContext &context, const Decisions &decisions, Tasks &tasks);
  /// False if memory runs out, which the tasks' room excludes.
  bool run();
  Plan takePlan() { return std::move(plan); }

private:
  uint32_t findNextEvent() const;
  bool isQuiet() const;

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
  const TaskContext &context;
  const Decisions &decisions;
  Tasks &tasks;
  Streams streams;
  Plan plan;
  const uint32_t reductionLane;
  const bool isShared;

  uint32_t position = 0;
  uint32_t nextEvent = 0;
  /// Copies, inputs of reductions until their wait, shards.
  int64_t held = 0;
  int64_t lastBytes = 0;         // while the operation before this position ran
  std::vector<uint32_t> byFirst; // gather tasks by their first operation
  size_t nextNeeded = 0;         // in byFirst
  size_t nextAhead = 0;          // gather task; all before are launched
  std::vector<uint32_t> taskOfUse;
  uint32_t nextUse = 0;
  size_t nextReady = 0;      // reduction task
  ReductionQueue unlaunched; // ready ones
  ReductionQueue pending;    // launched ones that are not waited for
};

} // namespace

Scheduler::Scheduler(const TaskContext &context, const Decisions &decisions, Tasks &tasks)
    : problem(context.problem), context(context), decisions(decisions), tasks(tasks),
      streams(problem), reductionLane(problem.oneLane || decisions.shareLane ? 0 : 1),
      isShared(reductionLane == 0), byFirst(tasks.gathers.size()),
      taskOfUse(problem.uses.size(), UINT32_MAX), unlaunched(tasks.reductions),
      pending(tasks.reductions) {
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
    if (isQuiet()) {
      streams.compute(operation().durationNs);
      continue;
    }
    if (position > 0)
      lastBytes = problem.operations[position - 1].liveBytes + held - tasks.changes[position];
    for (; nextReady < tasks.reductions.size() && tasks.reductions[nextReady].ready == position;
         ++nextReady)
      unlaunched.push(nextReady);
    if (!(pending.isEmpty() && unlaunched.isEmpty()) && !advanceReductions())
      return false;
    launchNeededGathers();
    if (nextAhead < tasks.gathers.size())
      launchAhead();
    waitForGathers();
    nextEvent = findNextEvent();
    streams.compute(operation().durationNs);
  }
  return true;
}

/// The next position at which a reduction is ready or due, or a use begins.
uint32_t Scheduler::findNextEvent() const {
  uint32_t next = problem.operations.size();
  if (nextReady < tasks.reductions.size())
    next = std::min(next, tasks.reductions[nextReady].ready);
  if (nextUse < problem.uses.size())
    next = std::min(next, problem.uses[nextUse].first);
  return std::min({next, unlaunched.getFirstUpdate(), pending.getFirstUpdate()});
}

/// Whether nothing can be done at this position: what most are like.
bool Scheduler::isQuiet() const {
  double endNs = streams.getNow() + operation().durationNs * problem.computeContention;
  if (position >= nextEvent ||
      (!unlaunched.isEmpty() && (streams.findEndOfLane(reductionLane) < endNs || !canPutOff())) ||
      (!pending.isEmpty() && (streams.hasEnded(tasks.reductions[pending.front()].ticket) ||
                              !fits(operation().liveBytes + held))))
    return false;
  return nextAhead == tasks.gathers.size() ||
         (decisions.lookahead == 0 && tasks.gathers[nextAhead].earliest > position &&
          !tasks.gathers[nextAhead].isLaunched) ||
         streams.findEndOfLane(0) >= endNs;
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

void Scheduler::launch(ReductionTask &task) {
  task.launch = position;
  task.ticket = streams.launch(reductionLane, task.durationNs);
  held += task.outputBytes;
  pending.push(&task - tasks.reductions.data());
  plan.reductions.push_back({task.reductions, position, 0});
}

void Scheduler::waitForOldest() {
  const ReductionTask &task = tasks.reductions[pending.front()];
  if (!streams.hasEnded(task.ticket))
    launchBehind(streams.findEnd(task.ticket));
  streams.waitFor(task.ticket);
  held -= task.inputBytes;
  plan.reductions[plan.reductions.size() - pending.size()].wait = position;
  pending.erase(pending.begin());
}

void Scheduler::waitForEnded() {
  while (!pending.isEmpty() && streams.hasEnded(tasks.reductions[pending.front()].ticket))
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
  if (unlaunched.getFirstUpdate() == position)
    return false;
  int64_t bytes = held + findNeededBytes();
  return fits(operation().liveBytes + bytes) &&
         fits(problem.operations[position + 1].carriedBytes + bytes - pending.getInputBytes() +
              tasks.changes[position + 1] + unlaunched.getMostOutputBytes());
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
  double gatherNs = 0;
  for (int i = 0; i < kHorizon && index < tasks.gathers.size(); ++index) {
    const GatherTask &gather = tasks.gathers[index];
    if (gather.isLaunched)
      continue;
    gatherNs += gather.durationNs;
    double computeNs =
        (context.beginNs[gather.first] - context.beginNs[position]) * problem.computeContention;
    if (computeNs - gatherNs < task.durationNs)
      return true;
    ++i;
  }
  return false;
}

/// Launches what can start at once, and what cannot be put off.
void Scheduler::launchWanted() {
  while (!unlaunched.isEmpty()) {
    const ReductionTask &task = tasks.reductions[unlaunched.front()];
    // If the operation has no room for its output as well, launching it means to wait for it.
    bool isWanted = hasRoom(task) && canStart(task) && !isGatherFirst(task) &&
                    fits(operation().liveBytes + held + findNeededBytes() + task.outputBytes);
    if (!isWanted && canPutOff())
      return;
    if (launchFirstWithRoom())
      continue;
    if (pending.isEmpty())
      return; // The schedule of least memory puts it off as well.
    waitForOldest();
  }
}

/// Waits for all that an update at this position needs.
bool Scheduler::updateDue() {
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

/// Waits until the coming operation fits beside what is pending.
bool Scheduler::makeRoom() {
  while (!fits(operation().liveBytes + held + findNeededBytes())) {
    if (!pending.isEmpty())
      waitForOldest();
    else if (!launchFirstWithRoom())
      return false;
  }
  return true;
}

bool Scheduler::advanceReductions() {
  while (pending.getFirstUpdate() == position)
    waitForOldest();
  while (true) {
    double beforeNs = streams.getNow();
    waitForEnded();
    launchWanted();
    if (!updateDue() || !makeRoom())
      return false;
    // After standing still, more can start.
    if (streams.getNow() == beforeNs || unlaunched.isEmpty())
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
  tasks.room.take(from, task.first, task.bytes);
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
    task.earliest = tasks.room.findBehindObstacle(position, task.first, task.bytes);
    if (task.earliest > position)
      return false;
    task.checkedAt = plan.gathers.size();
  }
  // Beside what is pending now, and so that reductions that were put off can go on.
  if (!fits(operation().liveBytes + held + findNeededBytes() + task.bytes))
    return false;
  held += task.bytes;
  bool canGoOn = unlaunched.isEmpty() || canPutOff();
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
  if (!unlaunched.isEmpty() || position == 0 || isShared)
    return;
  for (skipLaunched(); nextAhead < tasks.gathers.size(); skipLaunched()) {
    GatherTask &task = tasks.gathers[nextAhead];
    double laneNs = streams.findEndOfLane(0);
    if (laneNs <= streams.getNow() || laneNs >= endNs || task.earliest >= position ||
        task.first == position || !isLaunchable(task) ||
        tasks.room.findBehindObstacle(position - 1, position, task.bytes) == position ||
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

ListScheduler::ListScheduler(const Problem &problem)
    : context(std::make_unique<TaskContext>(problem)) {}

ListScheduler::~ListScheduler() = default;

ListScheduleResult ListScheduler::operator()(const Decisions &decisions) const {
  std::optional<Tasks> tasks = makeTasks(*context, decisions);
  if (!tasks)
    return {};
  Scheduler scheduler(*context, decisions, *tasks);
  if (!scheduler.run()) {
    assert(false && "the tasks' room was not respected");
    return {};
  }
  ListScheduleResult result;
  result.plan = scheduler.takePlan();
  result.makespanNs = makespanNs(context->problem, *result.plan);
  return result;
}

ListScheduleResult fsdp::schedule::listSchedule(const Problem &problem,
                                                const Decisions &decisions) {
  return ListScheduler(problem)(decisions);
}
