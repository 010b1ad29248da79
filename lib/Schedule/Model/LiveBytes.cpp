//===- LiveBytes.cpp - Live bytes of a plan, with its chunks --------------===//

#include "LiveBytes.h"

#include <algorithm>

using namespace fsdp::schedule;

std::vector<uint8_t> fsdp::schedule::keepByRule(const Problem &problem) {
  std::vector<int32_t> previous = problem.previousUses();
  std::vector<uint8_t> kept(problem.uses.size());
  for (uint32_t i = 0; i < kept.size(); ++i)
    kept[i] = keepRuleOf(problem, i, previous[i]) == KeepRule::Always;
  return kept;
}

std::vector<int64_t> Problem::unavoidableBytes() const {
  std::vector<int64_t> bytes, changes(operations.size() + 1); // of bytes that are live
  auto add = [&](uint32_t first, uint32_t last, int64_t amount) {
    changes[first] += amount;
    changes[last + 1] -= amount;
  };
  const std::vector<int32_t> previous = previousUses();
  const std::vector<uint8_t> kept = keepByRule(*this);
  for (uint32_t i = 0; i < uses.size(); ++i)
    add(kept[i] ? uses[previous[i]].last + 1 : uses[i].first, uses[i].last,
        groupOfUse(i).gatheredBytes);
  for (const Reduction &reduction : reductions)
    add(reduction.ready, reduction.update, reduction.outputBytes);
  int64_t live = 0;
  for (size_t i = 0; i < operations.size(); ++i)
    bytes.push_back(operations[i].liveBytes + (live += changes[i]));
  return bytes;
}

std::vector<Operation> fsdp::schedule::addChunks(const Problem &problem,
                                                 std::span<const uint8_t> chunked) {
  const std::vector<int32_t> previousUses = problem.previousUses();
  std::vector<Operation> operations = problem.operations;
  std::vector<int64_t> changes(operations.size() + 1); // of bytes that are live
  for (size_t use = 0; use < chunked.size(); ++use) {
    if (!chunked[use])
      continue;
    const Chunk &chunk = *problem.groupOfUse(use).chunk;
    uint32_t made = problem.uses[previousUses[use]].last;
    operations[made].durationNs += chunk.copyNs;
    changes[made] += chunk.bytes;
    changes[problem.uses[use].first + 1] -= chunk.bytes;
    operations[made].carriedBytes -= chunk.bytes; // the chunk is not live before the operation
  }
  int64_t liveBytes = 0;
  for (size_t i = 0; i < operations.size(); ++i) {
    liveBytes += changes[i];
    operations[i].liveBytes += liveBytes;
    operations[i].carriedBytes += liveBytes;
  }
  return operations;
}

Problem fsdp::schedule::withChunks(const Problem &problem, std::span<const uint8_t> chunked) {
  Problem changed = problem;
  changed.operations = addChunks(problem, chunked);
  return changed;
}

std::vector<uint32_t> fsdp::schedule::findCopyEnds(const Problem &problem,
                                                   const std::vector<int32_t> &previousUses,
                                                   const std::vector<uint8_t> &kept) {
  std::vector<uint32_t> ends;
  for (const Use &use : problem.uses)
    ends.push_back(use.last);
  for (size_t i = ends.size(); i-- > 0;)
    if (kept[i])
      ends[previousUses[i]] = ends[i];
  return ends;
}

/// Calls `atLaunch(bytes, position)` for each launch of a reduction, at which its input, its output
/// and the carried bytes are live, and `atOperation(bytes, index)` for each operation, in the order
/// of issue. The peak is at one of these moments: gathers are launched last at a position, and the
/// operation that follows has at least as many live bytes. O(n).
template <typename AtLaunch, typename AtOperation>
static void walkLiveBytes(const Problem &problem, const Plan &plan, AtLaunch &&atLaunch,
                          AtOperation &&atOperation) {
  size_t n = problem.operations.size();
  const std::vector<Operation> operations = addChunks(problem, plan.chunked);
  // By position: bytes that become live minus bytes that die, before its launches of reductions.
  std::vector<int64_t> changes(n + 1);
  std::vector<uint32_t> ends = findCopyEnds(problem, problem.previousUses(), plan.kept);
  for (const GatherBucket &bucket : plan.gathers)
    for (uint32_t use : bucket.uses)
      changes[ends[use] + 1] -= problem.groupOfUse(use).gatheredBytes;
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
        held += problem.groupOfUse(use).gatheredBytes;
    atOperation(held + operations[i].liveBytes, i);
  }
}

Peak fsdp::schedule::peakOf(const Problem &problem, const Plan &plan) {
  Peak peak;
  auto reach = [&](int64_t bytes, uint32_t operation) {
    if (bytes > peak.bytes)
      peak = {bytes, operation};
  };
  walkLiveBytes(problem, plan, reach, reach);
  return peak;
}

void fsdp::schedule::putOffWaits(const Problem &problem, Plan &plan) {
  const int64_t peakBytes = peakOf(problem, plan).bytes;
  std::vector<int64_t> heldBytes; // by operation
  walkLiveBytes(
      problem, plan, [](int64_t, uint32_t) {},
      [&](int64_t bytes, uint32_t) { heldBytes.push_back(bytes); });
  // A later wait adds bytes only to operations before the next launch of a reduction. So each
  // operation is affected by at most one wait.
  for (size_t i = 0; i < plan.reductions.size(); ++i) {
    ReductionBucket &bucket = plan.reductions[i];
    uint32_t end = i + 1 < plan.reductions.size() ? plan.reductions[i + 1].launch : UINT32_MAX;
    int64_t inputBytes = 0;
    for (uint32_t index : bucket.reductions) {
      end = std::min(end, problem.reductions[index].update);
      inputBytes += problem.reductions[index].inputBytes;
    }
    while (bucket.wait < end && heldBytes[bucket.wait] + inputBytes <= peakBytes)
      ++bucket.wait;
  }
}
