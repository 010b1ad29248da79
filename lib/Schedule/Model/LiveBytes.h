//===- LiveBytes.h - Live bytes of a plan at each moment ---------*- C++ -*-===//

#ifndef FSDP_LIB_SCHEDULE_LIVEBYTES_H
#define FSDP_LIB_SCHEDULE_LIVEBYTES_H

#include "Chunks.h"
#include "fsdp/Schedule/Plan.h"

namespace fsdp::schedule {

/// By use: the last operation that reads the use's gathered copy. The uses in `kept` read the copy
/// of the group's previous use.
std::vector<uint32_t> findCopyEnds(const Problem &problem, const std::vector<int32_t> &nextUses,
                                   const std::vector<uint8_t> &kept);

/// Calls `atLaunch(bytes, position)` for each launch of a reduction, at which its input, its output
/// and the carried bytes are live, and `atOperation(bytes, index)` for each operation, in the order
/// of issue. The peak is at one of these moments: gathers are launched last at a position, and the
/// operation that follows has at least as many live bytes. O(n).
template <typename AtLaunch, typename AtOperation>
void walkLiveBytes(const Problem &problem, const Plan &plan, AtLaunch &&atLaunch,
                   AtOperation &&atOperation) {
  size_t n = problem.operations.size();
  std::vector<Operation> withChunks;
  if (!plan.chunked.empty())
    withChunks = addChunks(problem, problem.previousUses(), plan.chunked);
  const std::vector<Operation> &operations = plan.chunked.empty() ? problem.operations : withChunks;
  // By position: bytes that become live minus bytes that die, before its launches of reductions.
  std::vector<int64_t> changes(n + 1);
  std::vector<uint32_t> ends = findCopyEnds(problem, problem.nextUses(), plan.kept);
  for (const GatherBucket &bucket : plan.gathers)
    for (uint32_t use : bucket.uses)
      changes[ends[use] + 1] -= problem.groups[problem.uses[use].group].gatheredBytes;
  for (const ReductionBucket &bucket : plan.reductions)
    for (uint32_t index : bucket.reductions) {
      const Reduction &reduction = problem.reductions[index];
      changes[reduction.ready] += reduction.inputBytes;
      changes[reduction.update + 1] -= reduction.outputBytes;
      if (bucket.launch < bucket.wait)
        changes[bucket.wait] -= reduction.inputBytes;
    }

  auto reduction = plan.reductions.begin();
  auto gather = plan.gathers.begin();
  int64_t held = 0; // copies, inputs and shards
  for (uint32_t i = 0; i < n; ++i) {
    held += changes[i];
    for (; reduction != plan.reductions.end() && reduction->launch == i; ++reduction) {
      int64_t inputBytes = 0;
      for (uint32_t index : reduction->reductions) {
        held += problem.reductions[index].outputBytes;
        inputBytes += problem.reductions[index].inputBytes;
      }
      atLaunch(held + operations[i].carriedBytes, i);
      if (reduction->wait == i)
        held -= inputBytes;
    }
    for (; gather != plan.gathers.end() && gather->launch == i; ++gather)
      for (uint32_t use : gather->uses)
        held += problem.groups[problem.uses[use].group].gatheredBytes;
    atOperation(held + operations[i].liveBytes, i);
  }
}

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_LIVEBYTES_H
