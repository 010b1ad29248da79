//===- FluidMemory.cpp - Buffers that fit into the slack ------------------===//

#include "FluidRows.h"
#include "SubsetSum.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace fsdp::schedule;

namespace {

/// A multiset of sizes.
class Sizes {
public:
  void add(int64_t bytes) {
    ++counts[bytes];
    totalBytes += bytes;
  }
  void add(const Sizes &other) {
    for (auto [bytes, count] : other.counts)
      counts[bytes] += count;
    totalBytes += other.totalBytes;
  }
  bool empty() const { return counts.empty(); }
  int64_t total() const { return totalBytes; }
  /// The largest sum of these sizes that is at most `bytes`, or an upper bound on it.
  int64_t fitInto(int64_t bytes) const {
    return totalBytes <= bytes ? totalBytes : largestSubsetSum(counts, bytes);
  }

private:
  SizeCounts counts;
  int64_t totalBytes = 0;
};

} // namespace

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
void FluidRows::addMemory() {
  if (!problem.memoryCapBytes)
    return;
  double mostFreed = 0;
  for (const ReductionWindow &reduction : windows.reductions)
    if (reduction.excessBytes > 0)
      mostFreed = std::max(mostFreed, double(reduction.excessBytes) /
                                          (reduction.shares.byte * double(reduction.inputBytes)));
  std::vector<double> readyExcess{0};
  for (const ReductionWindow &reduction : windows.reductions)
    readyExcess.push_back(readyExcess.back() + double(reduction.excessBytes) / choices.byteUnit);

  for (size_t s = 0; s < segments.size(); ++s) {
    const FluidSegment &segment = segments[s];
    auto isOpen = [&](uint32_t from, uint32_t to) {
      return from <= segment.segment.begin && segment.segment.begin < to;
    };
    // The buffers that may be live in addition to the bytes that are live under every plan.
    Sizes copies, excesses; // gathered copies, kept copies and chunks; inputs minus shards
    for (const GatherWindow &gather : windows.gathers) {
      if (isOpen(gather.gate, gather.first))
        copies.add(gather.sizeBytes);
      if (gather.chunk && isOpen(gather.keptFrom, gather.first))
        copies.add(gather.chunk->bytes);
    }
    for (const ReductionWindow &reduction : windows.reductions)
      if (isOpen(reduction.ready, reduction.deadline))
        excesses.add(reduction.excessBytes);
    Sizes both = copies;
    both.add(excesses);
    auto fit = [&](int64_t slackBytes, Column gathered, Column reduced) {
      Expression stayed = choices.keptBytes[s];
      auto addRows = [&](const Expression &live) {
        if (copies.total() > slackBytes)
          program.requireAtLeast(double(copies.fitInto(slackBytes)) / choices.byteUnit, live);
        if (!excesses.empty() && both.total() > slackBytes && std::isfinite(mostFreed))
          program.requireAtLeast(double(both.fitInto(slackBytes)) / choices.byteUnit,
                                 live + readyExcess[segment.readyReductions] -
                                     mostFreed * Expression(reduced));
      };
      if (segment.launchableGathers <= segment.dueGathers)
        return addRows(stayed);
      Expression ahead = gathered - choices.gatherBytes[segment.dueGathers];
      addRows(stayed + ahead);
      if (double share = choices.mostChunkShare; share > 0 && share < 1)
        addRows(stayed + 1 / share * ahead -
                (1 / share - 1) * (choices.wholeBytes[segment.launchableGathers] -
                                   choices.wholeBytes[segment.dueGathers]));
    };
    const Moment &start = segment.start, &after = segment.after;
    if (segment.segment.isSingle()) {
      fit(segment.segment.leastSlackBytes, after.gatheredBytes, start.reducedBytes);
    } else {
      if (segment.segment.leastSlackBytes < segment.segment.lastSlackBytes)
        fit(segment.segment.leastSlackBytes, start.gatheredBytes, after.reducedBytes);
      fit(segment.segment.lastSlackBytes, after.gatheredBytes, after.reducedBytes);
    }
  }
}
