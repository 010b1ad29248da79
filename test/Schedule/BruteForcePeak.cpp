//===- BruteForcePeak.cpp - Memory, moment by moment ----------------------===//

#include "BruteForcePeak.h"

#include <algorithm>

using namespace fsdp::schedule;

namespace {

/// A moment at a position, or the operation behind it.
struct Moment {
  uint32_t position;
  /// This many reduction buckets were launched, the last of them not yet waited for.
  size_t numReductions;
  size_t numGathers;
  bool isOperation = false;
};

class Memory {
public:
  Memory(const Problem &problem, const Plan &plan) : problem(problem), plan(plan) {}

  int64_t at(Moment moment) const {
    const Operation &operation = problem.operations[moment.position];
    int64_t bytes = moment.isOperation ? operation.liveBytes : operation.carriedBytes;
    for (size_t i = 0; i < moment.numGathers; ++i)
      for (uint32_t use : plan.gathers[i].uses)
        if (findEnd(use) >= moment.position)
          bytes += problem.groups[problem.uses[use].group].gatheredBytes;
    for (uint32_t use = 0; use < problem.uses.size(); ++use)
      if (plan.isChunked(use) && hasChunk(use, moment))
        bytes += chunkOf(use).bytes;
    for (size_t i = 0; i < plan.reductions.size(); ++i)
      for (uint32_t index : plan.reductions[i].reductions) {
        const Reduction &reduction = problem.reductions[index];
        if (reduction.ready <= moment.position && !isWaitedFor(i, moment))
          bytes += reduction.inputBytes;
        if (i < moment.numReductions && moment.position <= reduction.update)
          bytes += reduction.outputBytes;
      }
    return bytes;
  }

private:
  uint32_t findEnd(uint32_t use) const {
    uint32_t end = problem.uses[use].last;
    for (uint32_t i = use + 1; i < problem.uses.size(); ++i)
      if (problem.uses[i].group == problem.uses[use].group) {
        if (!plan.kept[i])
          break;
        end = problem.uses[i].last;
      }
    return end;
  }
  const Chunk &chunkOf(uint32_t use) const {
    return problem.groups[problem.uses[use].group].chunks[plan.chunked[use] - 1];
  }
  /// From the last operation of the use before to the first operation of this one, or until the
  /// chunk is on the host.
  bool hasChunk(uint32_t use, Moment moment) const {
    uint32_t before = use;
    while (problem.uses[--before].group != problem.uses[use].group) {
    }
    uint32_t made = problem.uses[before].last;
    const uint32_t last = chunkOf(use).isOnHost ? std::max(made, problem.uses[before].storedBy)
                                                : problem.uses[use].first;
    return moment.position <= last &&
           (moment.position > made || (moment.position == made && moment.isOperation));
  }
  bool isWaitedFor(size_t bucket, Moment moment) const {
    if (plan.reductions[bucket].wait != moment.position)
      return plan.reductions[bucket].wait < moment.position;
    // A wait at the launch's position follows at once; others come before all launches.
    return moment.isOperation || plan.reductions[bucket].launch < moment.position ||
           bucket + 1 < moment.numReductions;
  }

  const Problem &problem;
  const Plan &plan;
};

} // namespace

int64_t fsdp::schedule::findPeakByBruteForce(const Problem &problem, const Plan &plan) {
  Memory memory(problem, plan);
  int64_t peak = 0;
  size_t numReductions = 0, numGathers = 0;
  for (uint32_t i = 0; i < problem.operations.size(); ++i) {
    while (numReductions < plan.reductions.size() && plan.reductions[numReductions].launch == i)
      peak = std::max(peak, memory.at({i, ++numReductions, numGathers}));
    while (numGathers < plan.gathers.size() && plan.gathers[numGathers].launch == i)
      ++numGathers;
    peak = std::max(peak, memory.at({i, numReductions, numGathers, true}));
  }
  return peak;
}
