//===- LiveBytes.cpp - Live bytes of a plan, with its chunks --------------===//

#include "LiveBytes.h"

#include "fsdp/Schedule/HeldBytes.h"

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
    const Chunk &chunk = problem.chunkOf(use, chunked[use]);
    const auto previous = uint32_t(previousUses[use]);
    const uint32_t made = problem.uses[previous].last;
    const uint32_t end =
        chunk.isOnHost ? problem.releasedAt(previous, chunked[use]) : problem.uses[use].first + 1;
    operations[made].durationNs += chunk.copyNs;
    changes[made] += chunk.bytes;
    changes[end] -= chunk.bytes;
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

Peak fsdp::schedule::peakOf(const Problem &problem, const Plan &plan) {
  const std::vector<Operation> operations = addChunks(problem, plan.chunked);
  Peak peak;
  walkHeldBytes(problem, plan, [&](HeldAt moment, uint32_t position, const HeldBytes &held) {
    if (moment == HeldAt::Arrival)
      return;
    const Operation &operation = operations[position];
    const int64_t bytes =
        held.total() + (moment == HeldAt::Launch ? operation.carriedBytes : operation.liveBytes);
    if (bytes > peak.bytes)
      peak = {bytes, position};
  });
  return peak;
}

void fsdp::schedule::putOffWaits(const Problem &problem, Plan &plan) {
  const int64_t peakBytes = peakOf(problem, plan).bytes;
  std::vector<int64_t> heldBytes; // by operation
  for (const Operation &operation : addChunks(problem, plan.chunked))
    heldBytes.push_back(operation.liveBytes);
  walkHeldBytes(problem, plan, [&](HeldAt moment, uint32_t position, const HeldBytes &held) {
    if (moment == HeldAt::Operation)
      heldBytes[position] += held.total();
  });
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
