//===- FluidMemory.cpp - What fits beside what no plan avoids -------------===//

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
  void remove(int64_t bytes) {
    auto it = counts.find(bytes);
    if (--it->second == 0)
      counts.erase(it);
    totalBytes -= bytes;
  }
  bool empty() const { return counts.empty(); }
  int64_t total() const { return totalBytes; }
  /// The most of them that fits.
  int64_t fitInto(int64_t bytes) const {
    return totalBytes <= bytes ? totalBytes : largestSubsetSum(counts, bytes);
  }

private:
  SizeCounts counts;
  int64_t totalBytes = 0;
};

/// What may be held beside what is live under every plan, as a sweep over positions sees it. A
/// window is open at its last position, and closed while the operation there runs.
class OpenWindows {
public:
  explicit OpenWindows(const CollectiveWindows &windows) {
    changes.resize(windows.slackBytes.size());
    for (const GatherWindow &gather : windows.gathers) {
      changes[gather.gate].opening.push_back(gather.sizeBytes);
      changes[gather.first].closing.push_back(gather.sizeBytes);
      if (gather.chunk && gather.keptFrom < gather.first) {
        changes[gather.keptFrom].opening.push_back(gather.chunk->bytes);
        changes[gather.first].closing.push_back(gather.chunk->bytes);
      }
    }
    for (const ReductionWindow &reduction : windows.reductions) {
      changes[reduction.ready].getReady.push_back(&reduction);
      changes[reduction.deadline].end.push_back(&reduction);
    }
  }

  void open(uint32_t position) {
    for (int64_t bytes : changes[position].opening)
      copies.add(bytes);
    for (const ReductionWindow *reduction : changes[position].getReady)
      excesses.add(reduction->excessBytes);
  }
  void close(uint32_t position) {
    for (int64_t bytes : changes[position].closing)
      copies.remove(bytes);
    for (const ReductionWindow *reduction : changes[position].end)
      excesses.remove(reduction->excessBytes);
  }

  Sizes copies;   // gathered or kept, and chunks
  Sizes excesses; // of reductions: what they hold until they are waited for, at least

private:
  struct Changes {
    std::vector<int64_t> opening, closing; // sizes of copies and chunks
    std::vector<const ReductionWindow *> getReady, end;
  };
  std::vector<Changes> changes;
};

} // namespace

/// Copies. Beside operation i are those whose gathers were launched by then, so at least what the
/// lane has gathered by the operation's end without what is due already, and those that are kept;
/// and chunks. Whole buffers lie there, so their sum is a sum of sizes. A gather of chunks counts
/// as less than its copy.
///
/// Reductions. Beside operation i are, at least, the inputs that are ready without those that have
/// been waited for by its start, each less the shard that is left of it. Of what the lane has
/// reduced by then, in bytes of the dearest mesh, at most the share `mostFreed` is freed.
///
/// For a run of operations: its tightest one sees what was gathered before the run, and at best
/// what was reduced by the run's end; the last one sees both at the end.
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

  OpenWindows held(windows);
  for (size_t s = 0; s < segments.size(); ++s) {
    const FluidSegment &segment = segments[s];
    held.open(segment.segment.begin);
    held.close(segment.segment.begin);
    Sizes both = held.copies;
    both.add(held.excesses);
    auto fit = [&](int64_t slackBytes, Column gathered, Column reduced) {
      Expression copies = choices.keptBytes[s];
      if (segment.launchableGathers > segment.dueGathers)
        copies += gathered - choices.gatherBytes[segment.dueGathers];
      if (held.copies.total() > slackBytes)
        program.requireAtLeast(double(held.copies.fitInto(slackBytes)) / choices.byteUnit, copies);
      if (!held.excesses.empty() && both.total() > slackBytes && std::isfinite(mostFreed))
        program.requireAtLeast(double(both.fitInto(slackBytes)) / choices.byteUnit,
                               copies + readyExcess[segment.readyReductions] -
                                   mostFreed * Expression(reduced));
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
