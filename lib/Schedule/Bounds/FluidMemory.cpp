//===- FluidMemory.cpp - Buffers that fit into the slack ------------------===//

#include "FluidProgram.h"

#include <algorithm>
#include <cmath>

using namespace fsdp::schedule;

static int64_t totalOf(const SizeCounts &sizes) {
  int64_t bytes = 0;
  for (auto [sizeBytes, count] : sizes)
    bytes += sizeBytes * count;
  return bytes;
}

/// Models have few different sizes, so the search branches over the number of buffers of each size,
/// the largest size first. Many different sizes fill nearly any capacity; then the capacity itself
/// is a good upper bound.
int64_t fsdp::schedule::largestSubsetSum(const SizeCounts &sizes, int64_t capacity) {
  if (capacity <= 0)
    return 0;
  int64_t best = 0, stepsLeft = 2000;
  // `restBytes`: of all buffers of the size `it` and of smaller ones.
  auto branch = [&](auto &self, auto it, int64_t restBytes, int64_t filled) -> void {
    best = std::max(best, filled);
    if (best == capacity || filled + restBytes <= best)
      return;
    auto [bytes, count] = *it;
    int64_t most = std::min<int64_t>(count, (capacity - filled) / bytes);
    for (int64_t taken = most; taken >= 0 && --stepsLeft > 0; --taken)
      self(self, std::next(it), restBytes - bytes * count, filled + taken * bytes);
  };
  branch(branch, sizes.rbegin(), totalOf(sizes), 0);
  return stepsLeft > 0 ? best : capacity;
}

/// Copies. Live while operation i runs are chunks, kept copies, and the copies whose gathers were
/// launched by then. The last are at least the bytes that the lane has gathered by the operation's
/// end minus the bytes of due gathers. Buffers are whole, so their sum is a sum of sizes. A gather
/// from chunks counts only by its cost share, although its copy takes all of its memory. Let w be
/// the bytes of copies from all ranks, c those of copies from chunks, and s the largest cost share.
/// The lane has gathered at most w + s c. So w + c is at least (gathered - (1 - s) w) / s, and w is
/// at most the bytes that open windows gather from all ranks.
///
/// Reductions. Live while operation i runs are at least the inputs that are ready minus the inputs
/// that have been waited for by its start; the shard is subtracted from each input. Of the bytes
/// that the lane has reduced by then, counted in bytes of the dearest mesh, at most the share
/// `mostFreed` is freed.
///
/// A run of operations has two rows. The row of its operation with the least slack counts the bytes
/// gathered before the run, and as freed the bytes reduced by the run's end. The row of its last
/// operation counts both at the run's end.
void FluidProgram::addMemory() {
  if (!problem.memoryCapBytes)
    return;
  double mostFreed = 0;
  std::vector<double> readyExcess{0};
  for (const FluidReduction &reduction : reductions) {
    const double excess = double(reduction.excessBytes) / byteUnit;
    if (excess > 0)
      mostFreed = std::max(mostFreed, excess / reduction.size);
    readyExcess.push_back(readyExcess.back() + excess);
  }

  for (const FluidSegment &segment : segments) {
    auto isOpen = [&](uint32_t from, uint32_t to) {
      return from <= segment.begin && segment.begin < to;
    };
    // The buffers that may be live in addition to the bytes that are live under every plan:
    // gathered copies, kept copies and chunks; these and inputs minus shards.
    SizeCounts copies, buffers;
    for (const GatherWindow &gather : gathers) {
      if (isOpen(gather.gate, gather.first))
        ++copies[gather.sizeBytes];
      for (const ChunkWindow &window : gather.chunks)
        if (!window.chunk.isOnHost && isOpen(gather.keptFrom, gather.first))
          ++copies[window.chunk.bytes];
    }
    buffers = copies;
    for (const ReductionWindow &reduction : reductions)
      if (isOpen(reduction.ready, reduction.deadline))
        ++buffers[reduction.excessBytes];
    const bool countsReductions = buffers != copies && std::isfinite(mostFreed);
    auto fit = [&](int64_t slackBytes, Column gathered, Column reduced) {
      auto addRows = [&](const Expression &live) {
        if (totalOf(copies) > slackBytes)
          program.requireAtLeast(double(largestSubsetSum(copies, slackBytes)) / byteUnit, live);
        if (countsReductions && totalOf(buffers) > slackBytes)
          program.requireAtLeast(double(largestSubsetSum(buffers, slackBytes)) / byteUnit,
                                 live + readyExcess[segment.reductions.launchable] -
                                     mostFreed * Expression(reduced));
      };
      const Expression stayed = segment.keptBytes;
      if (segment.gathers.launchable <= segment.gathers.due)
        return addRows(stayed);
      Expression ahead = gathered - gatherWork.bytes[segment.gathers.due];
      addRows(stayed + ahead);
      if (double share = mostChunkShare; share > 0 && share < 1)
        addRows(stayed + 1 / share * ahead -
                (1 / share - 1) *
                    (wholeBytes[segment.gathers.launchable] - wholeBytes[segment.gathers.due]));
    };
    const Column before = segment.start.gathers.bytes, after = segment.after.gathers.bytes;
    const Column reduced = segment.after.reductions.bytes;
    if (segment.isSingle()) {
      fit(segment.leastSlackBytes, after, segment.start.reductions.bytes);
    } else {
      if (segment.leastSlackBytes < segment.lastSlackBytes)
        fit(segment.leastSlackBytes, before, reduced);
      fit(segment.lastSlackBytes, after, reduced);
    }
  }
}
