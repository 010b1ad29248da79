//===- FluidWork.cpp - Work that lanes have done by each moment -----------===//

#include "FluidRows.h"

#include <algorithm>
#include <cassert>

using namespace fsdp::schedule;

/// Chains of so many merged collectives have rows.
static constexpr uint32_t kChainLengths[] = {1, 2, 4, 8, 16};

const FluidSegment &FluidRows::segmentAt(uint32_t position) const {
  auto segment =
      std::partition_point(segments.begin(), segments.end(),
                           [&](const FluidSegment &it) { return it.segment.begin < position; });
  assert(segment != segments.end() && segment->segment.begin == position &&
         "windows begin with segments");
  return *segment;
}

/// When an operation starts, the gathers of all uses that have begun have ended, and so have their
/// buckets. A bucket's latency is counted at its first member. By a segment's end, no gather with a
/// later gate has been launched: all members of a launched bucket have earlier gates. Where gathers
/// wait for reductions, the lane has none of their bytes until these have ended.
void FluidRows::addGatherWork() {
  for (size_t s = 0; s < segments.size(); ++s) {
    const FluidSegment &segment = segments[s];
    if (segment.gathersBecomeDue) {
      const Expression &bytes = choices.gatherBytes[segment.dueGathers];
      program.requireAtLeast(segment.start.gatheredBytes, bytes);
      if (costs.gatherLatency > 0)
        program.requireAtLeast(segment.start.gatherLatencies,
                               choices.gatherLatencies[segment.dueGathers]);
    }
    bool last =
        s + 1 == segments.size() || segments[s + 1].launchableGathers > segment.launchableGathers;
    if (last && segment.launchableGathers > 0) {
      program.requireAtLeast(choices.gatherBytes[segment.launchableGathers],
                             segment.after.gatheredBytes);
      if (costs.gatherLatency > 0)
        program.requireAtLeast(choices.gatherLatencies[segment.launchableGathers],
                               segment.after.gatherLatencies);
    }
  }
}

/// A reduction has ended by its deadline. A bucket's latency is counted at its last member: when
/// the last member is ready all members are, and when it has ended all members have.
void FluidRows::addReductionWork() {
  for (size_t s = 0; s < segments.size(); ++s) {
    const FluidSegment &segment = segments[s];
    if (segment.reductionsBecomeDue) {
      program.requireAtLeast(segment.reduced.reducedBytes,
                             choices.deadlineBytes[segment.dueReductions]);
      if (costs.reduceLatency > 0)
        program.requireAtLeast(segment.reduced.reduceLatencies,
                               choices.deadlineLatencies[segment.dueReductions]);
    }
    bool last =
        s + 1 == segments.size() || segments[s + 1].readyReductions > segment.readyReductions;
    if (last && segment.readyReductions > 0) {
      program.requireAtLeast(choices.readyBytes[segment.readyReductions],
                             segment.after.reducedBytes);
      if (costs.reduceLatency > 0)
        program.requireAtLeast(choices.readyLatencies[segment.readyReductions],
                               segment.after.reduceLatencies);
    }
  }
}

/// Suppose that a gather is merged, and that each gather between it and the last due gather is
/// merged or kept. None of them begins a bucket, so the bucket of the gather began with a due
/// gather, and has ended. If the supposition is wrong, the row requires no more than the due
/// gathers. The gather may be from chunks, so it is weighted by its least cost share.
void FluidRows::addMergedGathers() {
  for (const FluidSegment &segment : segments) {
    if (!segment.gathersBecomeDue)
      continue;
    Expression due = choices.gatherBytes[segment.dueGathers];
    Expression between; // number of gathers after the last due gather that begin a bucket
    for (uint32_t length = 1, j = segment.dueGathers; j < windows.gathers.size(); ++length, ++j) {
      Column merged = choices.mergedGathers[j];
      if (!merged || length > *std::rbegin(kChainLengths))
        break;
      const GatherWindow &gather = windows.gathers[j];
      double sizeBytes = gather.leastShares.byte * double(gather.sizeBytes) / choices.byteUnit;
      due += sizeBytes * (merged - between);
      between += 1.0 - (merged + Expression(choices.kept[j]));
      if (isOneOf(kChainLengths, length))
        program.requireAtLeast(segment.start.gatheredBytes, due);
    }
  }
}

/// Suppose that the last few ready reductions are all merged. None of them ends a bucket, so they
/// wait for a reduction that is not ready yet. If the supposition is wrong, the row allows at least
/// all ready reductions.
void FluidRows::addMergedReductions() {
  for (const FluidSegment &segment : segments) {
    uint32_t ready = segment.readyReductions;
    if (!segment.reductionsGetReady || ready == windows.reductions.size())
      continue;
    const Moment &beforeNext = segmentAt(windows.reductions[ready].ready).before;
    Expression allowed = choices.readyBytes[ready];
    Expression between; // number of reductions, up to the last ready one, that end a bucket
    for (uint32_t length = 1; length <= ready; ++length) {
      Column merged = choices.mergedReductions[ready - length];
      if (!merged || length > *std::rbegin(kChainLengths))
        break;
      const ReductionWindow &reduction = windows.reductions[ready - length];
      double inputBytes = reduction.shares.byte * double(reduction.inputBytes) / choices.byteUnit;
      allowed -= inputBytes * (merged - between);
      between += 1.0 - Expression(merged);
      if (isOneOf(kChainLengths, length))
        program.requireAtLeast(allowed, beforeNext.reducedBytes);
    }
  }
}

/// A collective starts after the operation before its gate has ended, and a gather also after the
/// reductions that must have ended at its gate. Each takes at least as long as alone.
void FluidRows::addSingleCollectives() {
  for (size_t j = 0; j < windows.gathers.size(); ++j) {
    const GatherWindow &gather = windows.gathers[j];
    double duration = gather.cost.durationNs(gather.sizeBytes) / timeUnitNs;
    double least = gather.leastCost.durationNs(gather.sizeBytes) / timeUnitNs;
    program.requireAtLeast(segmentAt(gather.first).start.time,
                           segmentAt(gather.gate).launch.time +
                               duration * (1.0 - Expression(choices.kept[j])) -
                               (duration - least) * Expression(choices.chunked[j]));
  }
  for (const ReductionWindow &reduction : windows.reductions) {
    double duration = reduction.cost.durationNs(reduction.inputBytes) / timeUnitNs;
    program.requireAtLeast(segmentAt(reduction.deadline).reduced.time,
                           segmentAt(reduction.ready).before.time + Expression(duration));
  }
}

/// The weights of LaneShares.h give the rows. Without computation, weights with a share of
/// computation imply less than the weights of lanes alone, so they have no rows.
void FluidRows::addLaneRows(const Moment &from, const Moment &to, bool isComputing,
                            const Expression &computeTime) {
  bool gathers = from.gatheredBytes != to.gatheredBytes;
  bool reductions = from.reducedBytes != to.reducedBytes;
  for (const LaneShares &shares : laneShares[gathers][reductions])
    if (isComputing || shares[LaneWork::Compute] == 0 || !(gathers || reductions))
      program.requireAtLeast(to.time - Expression(from.time),
                             shares[LaneWork::Compute] * computeTime +
                                 costs.workOf(shares, from, to));
}

void FluidRows::addLanes() {
  for (size_t s = 0; s < segments.size(); ++s) {
    const FluidSegment &segment = segments[s];
    if (segment.launch.time != segment.before.time)
      addLaneRows(segment.before, segment.launch, false, {});
    if (segment.start.time != segment.launch.time)
      addLaneRows(segment.launch, segment.start, false, {});
    Expression computeTime = segment.segment.durationNs / timeUnitNs;
    if (!choices.copyTimes.empty())
      computeTime += choices.copyTimes[s];
    bool isComputing = segment.segment.durationNs > 0 || !choices.copyTimes.empty();
    addLaneRows(segment.start, segment.after, isComputing, computeTime);
  }
}
