//===- Peak.cpp - The most memory that a plan holds -----------------------===//

#include "Copies.h"
#include "fsdp/Schedule/Plan.h"

using namespace fsdp::schedule;

// At a position, gathers are launched last and the operation after it holds at least as much. So
// the only moments that count are operations and the launches of reductions, where input and output
// lie beside what is carried.
Peak fsdp::schedule::peakOf(const Problem &problem, const Plan &plan) {
  size_t n = problem.operations.size();
  // Bytes that come and go at each position before its reductions are launched.
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

  Peak peak;
  auto reach = [&](int64_t bytes, uint32_t operation) {
    if (bytes > peak.bytes)
      peak = {bytes, operation};
  };
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
      reach(held + problem.operations[i].carriedBytes, i);
      if (reduction->wait == i)
        held -= inputBytes;
    }
    for (; gather != plan.gathers.end() && gather->launch == i; ++gather)
      for (uint32_t use : gather->uses)
        held += problem.groups[problem.uses[use].group].gatheredBytes;
    reach(held + problem.operations[i].liveBytes, i);
  }
  return peak;
}
