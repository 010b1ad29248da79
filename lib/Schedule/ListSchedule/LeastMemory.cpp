//===- LeastMemory.cpp - The memory that no plan can avoid ----------------===//

#include "Model/LiveBytes.h"
#include "Tasks.h"
#include "fsdp/Schedule/LeaveRoom.h"

#include <algorithm>
#include <cassert>

using namespace fsdp::schedule;

namespace {

/// The schedule of least memory, in which only reductions with gates are put off.
class LeastMemoryWalk {
public:
  LeastMemoryWalk(const Problem &problem, const Tasks &tasks) : problem(problem), tasks(tasks) {}
  std::optional<LeastMemory> run();

private:
  bool reach(int64_t bytes);
  bool canPutOff(const ReductionTask &task) const;
  bool launchIfRoom(uint32_t index);
  bool advanceReductions();

  const Problem &problem;
  const Tasks &tasks;
  LeastMemory found;
  uint32_t position = 0;
  std::vector<uint32_t> pending;
  int64_t held = tasks.changes[0]; // copies, inputs of pending reductions, shards
};

} // namespace

/// Whether the bytes fit under the cap.
bool LeastMemoryWalk::reach(int64_t bytes) {
  if (bytes > tasks.capBytes)
    return false;
  if (bytes > found.peak.bytes)
    found.peak = {bytes, position};
  return true;
}

bool LeastMemoryWalk::canPutOff(const ReductionTask &task) const {
  const std::vector<Operation> &operations = problem.operations;
  const int64_t bytes = held + tasks.begins[position];
  return task.update > position && position + 1 < operations.size() &&
         operations[position].liveBytes + bytes <= tasks.capBytes &&
         operations[position + 1].carriedBytes + bytes + tasks.changes[position + 1] +
                 task.outputBytes <=
             tasks.capBytes;
}

bool LeastMemoryWalk::launchIfRoom(uint32_t index) {
  const ReductionTask &task = tasks.reductions[index];
  if (task.gate > position && canPutOff(task))
    return false;
  int64_t bytes = problem.operations[position].carriedBytes + held + task.outputBytes;
  if (!reach(bytes))
    return false;
  if (position > 0)
    found.bytes[position - 1] = std::max(found.bytes[position - 1], bytes);
  held += task.outputBytes - task.inputBytes;
  return true;
}

/// False if an update at this position needs a reduction that has no room.
bool LeastMemoryWalk::advanceReductions() {
  while (std::erase_if(pending, [&](uint32_t index) { return launchIfRoom(index); })) {
  }
  return std::ranges::none_of(
      pending, [&](uint32_t index) { return tasks.reductions[index].update == position; });
}

std::optional<LeastMemory> LeastMemoryWalk::run() {
  const uint32_t numOperations = problem.operations.size();
  found.bytes.resize(numOperations);
  size_t next = 0;
  while (position < numOperations) {
    for (; next < tasks.reductions.size() && tasks.reductions[next].ready == position; ++next)
      pending.push_back(next);
    if (!pending.empty() && !advanceReductions())
      return std::nullopt;
    // Advance to the next position with a reduction that is pending or becomes ready.
    uint32_t end = next < tasks.reductions.size() ? tasks.reductions[next].ready : numOperations;
    if (!pending.empty())
      end = position + 1;
    while (position < end) {
      held += tasks.begins[position];
      found.bytes[position] = problem.operations[position].liveBytes + held;
      if (!reach(found.bytes[position]))
        return std::nullopt;
      held += tasks.changes[++position];
    }
  }
  return std::move(found);
}

std::optional<LeastMemory> fsdp::schedule::findLeastMemory(const Problem &problem,
                                                           const Tasks &tasks) {
  return LeastMemoryWalk(problem, tasks).run();
}

// Nearly always each reduction runs where it is ready. If a later position has fewer live bytes, or
// several reductions are ready at once, the schedule depends on the cap, and the least cap is found
// by bisection.
Problem::MinimumPeak Problem::minimumPeak() const {
  Problem uncapped = *this;
  uncapped.memoryCapBytes.reset();
  Tasks tasks = *makeTasks(TaskContext(uncapped), decideSingly(uncapped, keepByRule(uncapped)));
  Peak best = findLeastMemory(uncapped, tasks)->peak;
  int64_t least = 0;
  for (int64_t bytes : unavoidableBytes())
    least = std::max(least, bytes);
  while (least < best.bytes) {
    tasks.capBytes = least + (best.bytes - least) / 2;
    if (std::optional<LeastMemory> found = findLeastMemory(uncapped, tasks))
      best = found->peak;
    else
      least = tasks.capBytes + 1;
  }
  return {best.bytes, best.operation};
}

bool fsdp::schedule::leaveRoom(Problem &problem, std::span<const int64_t> roomBytes) {
  assert(problem.memoryCapBytes && "room is left below a cap");
  std::vector<Operation> operations = problem.operations;
  std::vector<int64_t> unavoidable = problem.unavoidableBytes();
  for (size_t i = 0; i < unavoidable.size(); ++i)
    problem.operations[i].liveBytes +=
        std::clamp<int64_t>(*problem.memoryCapBytes - unavoidable[i], 0, roomBytes[i]);
  if (problem.minimumPeak().bytes <= *problem.memoryCapBytes)
    return true;
  problem.operations = std::move(operations);
  return false;
}
