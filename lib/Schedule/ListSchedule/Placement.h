//===- Placement.h - Positions for tasks ------------------------*- C++ -*-===//
//
// Walks the operations once, on simulated streams. Before each operation it
//   waits for reductions that have ended;
//   launches ready reductions that could start before the operation ends;
//   waits for more reductions if the operation needs their memory or an update needs their result;
//   launches the gathers that the operation needs;
//   launches later gathers that could start before the operation ends, if their copies fit until
//   their use beside the schedule of least memory (Tasks.h).
//
// Collectives that are launched ahead never take memory that the schedule of least memory needs, so
// waits for all reductions always make room for the next operation.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_PLACEMENT_H
#define FSDP_LIB_SCHEDULE_PLACEMENT_H

#include "Tasks.h"

namespace fsdp::schedule {

class Placement {
public:
  Placement(const TaskContext &context, const Decisions &decisions, Tasks &tasks);
  /// False if memory runs out. The tasks' room excludes this case.
  bool run();
  Plan takePlan() { return std::move(plan); }

private:
  bool issue();
  void skipQuiet();
  uint32_t findNextEvent() const;
  bool isQuiet(bool mayGather) const;

  // At the current position, in this order.
  bool advanceReductions();
  void launchNeededGathers();
  void launchAhead();
  void waitForGathers();
  void waitForReplicas();

  // Reductions.
  void launch(ReductionTask &task);
  void waitForOldest();
  /// Whether the oldest pending reduction has ended.
  bool hasEnded() const {
    return !pending.empty() && streams.hasEnded(tasks.reductions[pending.front()].ticket);
  }
  bool releaseEnded();
  void launchWanted();
  bool updateDue();
  bool makeRoom();
  bool launchFirstWithRoom();
  bool canStart() const;
  bool hasRoom(const ReductionTask &task) const {
    return fits(operation().carriedBytes + held + task.outputBytes);
  }
  bool canPutOff() const;
  bool isGatherFirst();

  // Gathers.
  bool isLaunchable(GatherTask &task);
  void skipLaunched() {
    while (nextAhead < tasks.gathers.size() && tasks.gathers[nextAhead].isLaunched)
      ++nextAhead;
  }
  void launch(GatherTask &task);

  const Operation &operation() const { return problem.operations[position]; }
  bool fits(int64_t bytes) const { return bytes <= tasks.capBytes; }
  /// The first position at which one of these reductions is needed.
  uint32_t firstUpdateOf(const std::vector<uint32_t> &reductions) const;
  /// The time at which the next operation ends if nothing else is launched.
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
  /// Bytes of gathered copies, of inputs of reductions until their wait, and of reduced shards.
  int64_t held = 0;
  std::vector<uint32_t> byFirst; // gather tasks by their first operation
  size_t nextNeeded = 0;         // in byFirst
  size_t nextAhead = 0;          // gather task; all tasks before it are launched
  std::vector<uint32_t> taskOfUse;
  uint32_t nextUse = 0;
  size_t nextReady = 0;      // reduction task
  // Reduction tasks, in order.
  std::vector<uint32_t> unlaunched; // ready, not launched yet
  std::vector<uint32_t> pending;    // launched, not waited for yet
  std::vector<uint32_t> goingOn;    // all-reduced over replicas, not waited for yet
};

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_PLACEMENT_H
