//===- ReductionQueue.h - Reductions in one state ---------------*- C++ -*-===//

#ifndef FSDP_LIB_SCHEDULE_REDUCTIONQUEUE_H
#define FSDP_LIB_SCHEDULE_REDUCTIONQUEUE_H

#include "Tasks.h"

namespace fsdp::schedule {

/// Reduction tasks in order, with what the list scheduler asks at every position.
class ReductionQueue {
public:
  explicit ReductionQueue(const std::vector<ReductionTask> &tasks) : tasks(tasks) {}

  bool isEmpty() const { return indices.empty(); }
  size_t size() const { return indices.size(); }
  uint32_t front() const { return indices.front(); }
  auto begin() const { return indices.begin(); }
  auto end() const { return indices.end(); }

  int64_t getInputBytes() const { return inputBytes; }           // of all
  int64_t getMostOutputBytes() const { return mostOutputBytes; } // of one
  uint32_t getFirstUpdate() const { return firstUpdate; }

  void push(uint32_t index) {
    indices.push_back(index);
    count(tasks[index]);
  }
  void erase(std::vector<uint32_t>::const_iterator it) {
    indices.erase(it);
    inputBytes = mostOutputBytes = 0;
    firstUpdate = UINT32_MAX;
    for (uint32_t index : indices)
      count(tasks[index]);
  }

private:
  void count(const ReductionTask &task) {
    inputBytes += task.inputBytes;
    mostOutputBytes = std::max(mostOutputBytes, task.outputBytes);
    firstUpdate = std::min(firstUpdate, task.update);
  }

  const std::vector<ReductionTask> &tasks;
  std::vector<uint32_t> indices;
  int64_t inputBytes = 0, mostOutputBytes = 0;
  uint32_t firstUpdate = UINT32_MAX;
};

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_REDUCTIONQUEUE_H
