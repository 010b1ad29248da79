//===- Chunks.cpp - Time and bytes that chunks add to operations ----------===//

#include "Chunks.h"

using namespace fsdp::schedule;

std::vector<Operation> fsdp::schedule::addChunks(const Problem &problem,
                                                 const std::vector<int32_t> &previousUses,
                                                 std::span<const uint8_t> chunked) {
  std::vector<Operation> operations = problem.operations;
  std::vector<int64_t> changes(operations.size() + 1); // of bytes that are live
  for (size_t use = 0; use < chunked.size(); ++use) {
    if (!chunked[use])
      continue;
    const Chunk &chunk = *problem.groups[problem.uses[use].group].chunk;
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
  if (!chunked.empty())
    changed.operations = addChunks(problem, problem.previousUses(), chunked);
  return changed;
}
