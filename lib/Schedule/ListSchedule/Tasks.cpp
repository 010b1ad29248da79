//===- Tasks.cpp - Launches to place, and the room for them ---------------===//

#include "Tasks.h"

#include "Model/LiveBytes.h"
#include "fsdp/Schedule/HeldBytes.h"

#include <algorithm>
#include <limits>
#include <utility>

using namespace fsdp::schedule;

TaskContext::TaskContext(const Problem &given, const std::vector<uint8_t> &chunked)
    : chunked(chunked),
      changed(chunked.empty() ? std::nullopt : std::optional(withChunks(given, chunked))),
      problem(changed ? *changed : given), previousUses(problem.previousUses()),
      reductionChanges(problem.operations.size() + 1), beginNs(problem.reachedNs()) {
  for (const Reduction &reduction : problem.reductions) {
    reductionChanges[reduction.ready] += reduction.inputBytes;
    reductionChanges[reduction.update + 1] -= reduction.outputBytes;
  }
}

bool fsdp::schedule::isComplete(const TaskContext &context, const Decisions &decisions) {
  const Problem &problem = context.problem;
  const std::vector<uint8_t> &kept = decisions.kept, &chunked = decisions.chunked;
  const size_t numUses = problem.uses.size(), numReductions = problem.reductions.size();
  if (kept.size() != numUses || (!chunked.empty() && chunked.size() != numUses) ||
      (!decisions.reductionGates.empty() && decisions.reductionGates.size() != numReductions))
    return false;
  std::vector<uint8_t> isServed = kept, isReduced(numReductions);
  for (const Decisions::Gathers &bucket : decisions.gathers)
    for (uint32_t use : bucket.uses)
      if (use >= numUses || isServed[use]++)
        return false;
  for (const std::vector<uint32_t> &bucket : decisions.reductions)
    for (uint32_t reduction : bucket)
      if (reduction >= numReductions || isReduced[reduction]++)
        return false;
  for (uint32_t i = 0; i < numUses; ++i) {
    const int32_t previous = context.previousUses[i];
    if (keepRuleOf(problem, i, previous) == (kept[i] ? KeepRule::Never : KeepRule::Always))
      return false;
    if (!chunked.empty() && chunked[i] && (kept[i] || !mayChunk(problem, i, previous, chunked[i])))
      return false;
  }
  return std::ranges::count(isServed, 0) == 0 && std::ranges::count(isReduced, 0) == 0;
}

/// One launch for `uses`, which are members of the bucket.
static GatherTask makeGatherTask(const TaskContext &context, const std::vector<uint32_t> &uses,
                                 const Decisions::Gathers &bucket) {
  const Problem &problem = context.problem;
  GatherTask task;
  task.uses = uses;
  std::ranges::sort(task.uses);
  task.first = problem.uses[task.uses.front()].first;
  task.earliest = std::min(bucket.gate, task.first);
  const uint32_t first = task.uses.front(); // all uses have one mesh and one number of a chunk
  const uint8_t chunked = context.chunked.empty() ? uint8_t(0) : context.chunked[first];
  for (uint32_t use : task.uses) {
    if (int32_t previous = context.previousUses[use]; previous >= 0)
      task.earliest = std::max(task.earliest, problem.releasedAt(uint32_t(previous), chunked));
    task.bytes += problem.groupOfUse(use).gatheredBytes;
  }
  task.byCopyEngine = problem.goesByCopyEngine(first, chunked > 0, bucket.byCopyEngine);
  task.duration = problem.ofGather(task.uses, context.chunked, task.byCopyEngine);
  return task;
}

static ReductionTask makeReductionTask(const Problem &problem, const Decisions &decisions,
                                       const std::vector<uint32_t> &bucket) {
  ReductionTask task;
  task.reductions = bucket;
  std::ranges::sort(task.reductions);
  task.update = UINT32_MAX;
  for (uint32_t index : task.reductions) {
    const Reduction &reduction = problem.reductions[index];
    task.ready = std::max(task.ready, reduction.ready);
    task.update = std::min(task.update, reduction.update);
    if (!decisions.reductionGates.empty())
      task.gate = std::max(task.gate, decisions.reductionGates[index]);
    task.inputBytes += reduction.inputBytes;
    task.outputBytes += reduction.outputBytes;
  }
  task.duration = problem.ofReduction(task.reductions);
  if (problem.meshOfReduction(task.reductions.front()).acrossCost)
    task.across = problem.ofAcross(task.reductions);
  return task;
}

Decisions fsdp::schedule::decideSingly(const Problem &problem, std::vector<uint8_t> kept,
                                       const std::vector<uint32_t> &gates) {
  Decisions decisions;
  for (uint32_t i = 0; i < kept.size(); ++i)
    if (!kept[i])
      decisions.gathers.push_back({{i}, gates.empty() ? 0 : gates[i]});
  for (uint32_t i = 0; i < problem.reductions.size(); ++i)
    decisions.reductions.push_back({i});
  decisions.kept = std::move(kept);
  return decisions;
}

/// Splits a bucket into launches and calls `make` for each. Members of a launch have equal
/// `ranksOf` and at most `mostBytes` in all. A larger member is a launch of its own.
template <typename RanksOf, typename BytesOf, typename Make>
static void split(const std::vector<uint32_t> &bucket, int64_t mostBytes, RanksOf ranksOf,
                  BytesOf bytesOf, Make make) {
  std::vector<uint32_t> rest = bucket, part, others;
  for (; !rest.empty(); rest.swap(others), others.clear(), part.clear()) {
    int64_t bytes = 0;
    bool isFull = false;
    for (uint32_t member : rest) {
      bool isOfPart = !isFull && ranksOf(member) == ranksOf(rest.front());
      isFull |= isOfPart && !part.empty() && bytes + bytesOf(member) > mostBytes;
      bytes += isOfPart ? bytesOf(member) : 0;
      (isOfPart && !isFull ? part : others).push_back(member);
    }
    make(part);
  }
}

std::optional<Tasks> fsdp::schedule::makeTasks(const TaskContext &context,
                                               const Decisions &decisions,
                                               std::optional<int64_t> maxBucketBytes) {
  const Problem &problem = context.problem;
  Tasks tasks;
  // Small enough that sums do not overflow.
  constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max() / 4;
  tasks.capBytes = problem.memoryCapBytes.value_or(kUnlimited);
  tasks.changes = context.reductionChanges;
  std::vector<uint32_t> ends = findCopyEnds(problem, context.previousUses, decisions.kept);
  tasks.begins.resize(problem.operations.size());
  const int64_t mostBytes = maxBucketBytes.value_or(kUnlimited);
  bool isPossible = true;
  for (const Decisions::Gathers &bucket : decisions.gathers)
    split(
        bucket.uses, mostBytes,
        [&](uint32_t use) {
          return std::pair(problem.groupOfUse(use).mesh,
                           decisions.chunked.empty() ? uint8_t(0) : decisions.chunked[use]);
        },
        [&](uint32_t use) { return problem.groupOfUse(use).gatheredBytes; },
        [&](const std::vector<uint32_t> &uses) {
          GatherTask &task = tasks.gathers.emplace_back(makeGatherTask(context, uses, bucket));
          isPossible &= task.earliest <= task.first;
          tasks.begins[task.first] += task.bytes;
          for (uint32_t use : task.uses)
            tasks.changes[ends[use] + 1] -= problem.groupOfUse(use).gatheredBytes;
        });
  for (const std::vector<uint32_t> &bucket : decisions.reductions)
    split(
        bucket, mostBytes, [&](uint32_t index) { return problem.groupOfReduction(index).mesh; },
        [&](uint32_t index) { return problem.reductions[index].inputBytes; },
        [&](const std::vector<uint32_t> &members) {
          ReductionTask &task =
              tasks.reductions.emplace_back(makeReductionTask(problem, decisions, members));
          isPossible &= task.ready <= task.update;
        });
  if (!isPossible)
    return std::nullopt;
  std::ranges::stable_sort(tasks.reductions, {}, &ReductionTask::ready);
  std::optional<LeastMemory> least = findLeastMemory(problem, tasks);
  if (!least)
    return std::nullopt;
  tasks.room.reset(std::move(least->bytes),
                   std::min(tasks.capBytes, decisions.memoryCapBytes.value_or(kUnlimited)));
  return tasks;
}
