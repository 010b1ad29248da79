//===- FluidWork.cpp - Work that lanes have done by each moment -----------===//

#include "FluidProgram.h"

#include <algorithm>
#include <bit>

using namespace fsdp::schedule;

/// Whether a chain of this many merged collectives has a row. Only some lengths have rows, so that
/// the program stays small.
static bool hasRow(uint32_t length) { return std::has_single_bit(length); }
static constexpr uint32_t kLongestChain = 16;

/// When an operation starts, the gathers of all uses that have begun have ended, and so have their
/// buckets. A bucket's latency is counted at its first member. By a segment's end, no gather with a
/// later gate has been launched: all members of a launched bucket have earlier gates. Where gathers
/// wait for reductions, the lane has none of their bytes until these have ended.
///
/// A reduction has ended by its deadline. A bucket's latency is counted at its last member: when
/// the last member is ready all members are, and when it has ended all members have.
void FluidProgram::addWork(LaneWindows FluidSegment::*lane, LaneProgress Moment::*progress,
                           Moment FluidSegment::*ended, const WorkSums &due,
                           const WorkSums &launchable) {
  for (size_t s = 0; s < segments.size(); ++s) {
    const LaneWindows &now = segments[s].*lane;
    if (now.becomeDue) {
      const LaneProgress &done = (segments[s].*ended).*progress;
      program.requireAtLeast(done.bytes, due.bytes[now.due]);
      if (done.latencies)
        program.requireAtLeast(done.latencies, due.latencies[now.due]);
    }
    bool isLast = s + 1 == segments.size() || (segments[s + 1].*lane).becomeLaunchable;
    if (isLast && now.launchable > 0) {
      const LaneProgress &done = segments[s].after.*progress;
      program.requireAtLeast(launchable.bytes[now.launchable], done.bytes);
      if (done.latencies)
        program.requireAtLeast(launchable.latencies[now.launchable], done.latencies);
    }
  }
}

/// Suppose that a gather is merged, and that each gather between it and the last due gather is
/// merged or kept. None of them begins a bucket, so the bucket of the gather began with a due
/// gather, and has ended. If the supposition is wrong, the row requires no more than the due
/// gathers. The gather may be from chunks, so it is weighted by its least cost share.
void FluidProgram::addMergedGathers() {
  for (const FluidSegment &segment : segments) {
    if (!segment.gathers.becomeDue)
      continue;
    Expression due = gatherWork.bytes[segment.gathers.due];
    Expression between; // number of gathers after the last due gather that begin a bucket
    for (uint32_t length = 1, j = segment.gathers.due; j < gathers.size(); ++length, ++j) {
      const FluidGather &gather = gathers[j];
      if (!gather.merged || length > kLongestChain)
        break;
      due += gather.leastShares.byte * gather.size * (gather.merged - between);
      between += 1.0 - (gather.merged + Expression(gather.kept));
      if (hasRow(length))
        program.requireAtLeast(segment.start.gathers.bytes, due);
    }
  }
}

/// Suppose that the last few ready reductions are all merged. None of them ends a bucket, so they
/// wait for a reduction that is not ready yet. If the supposition is wrong, the row allows at least
/// all ready reductions.
void FluidProgram::addMergedReductions() {
  for (const FluidSegment &segment : segments) {
    uint32_t ready = segment.reductions.launchable;
    if (!segment.reductions.becomeLaunchable || ready == reductions.size())
      continue;
    const Moment &beforeNext = segmentAt(reductions[ready].ready).before;
    Expression allowed = readyWork.bytes[ready];
    Expression between; // number of reductions, up to the last ready one, that end a bucket
    for (uint32_t length = 1; length <= ready; ++length) {
      const FluidReduction &reduction = reductions[ready - length];
      if (!reduction.merged || length > kLongestChain)
        break;
      allowed -= reduction.size * (reduction.merged - between);
      between += 1.0 - Expression(reduction.merged);
      if (hasRow(length))
        program.requireAtLeast(allowed, beforeNext.reductions.bytes);
    }
  }
}

/// A collective starts after the operation before its gate has ended, and a gather also after the
/// reductions that must have ended at its gate. Each takes at least as long as alone.
void FluidProgram::addSingleCollectives() {
  for (const FluidGather &gather : gathers) {
    auto durationBy = [&](const CollectiveCost &cost) {
      return cost.durationNs(gather.sizeBytes) / timeUnitNs;
    };
    const double duration = durationBy(gather.cost);
    Expression least = duration * (1.0 - Expression(gather.kept));
    for (const FluidChunk &choice : gather.choices)
      least -= (duration - durationBy(choice.cost)) * Expression(choice.chosen);
    program.requireAtLeast(segmentAt(gather.first).start.time,
                           segmentAt(gather.gate).launch.time + least);
  }
  for (const FluidReduction &reduction : reductions) {
    double duration = reduction.cost.durationNs(reduction.inputBytes) / timeUnitNs;
    program.requireAtLeast(segmentAt(reduction.deadline).reduced.time,
                           segmentAt(reduction.ready).before.time + Expression(duration));
  }
}

/// The weights of LaneShares.h give the rows. Without computation, weights with a share of
/// computation imply less than the weights of lanes alone, so they have no rows.
void FluidProgram::addLaneRows(const Moment &from, const Moment &to, bool isComputing,
                               const Expression &computeTime) {
  bool gathering = from.gathers != to.gathers, reducing = from.reductions != to.reductions;
  for (const LaneShares &shares : laneShares[gathering][reducing])
    if (isComputing || shares[LaneWork::Compute] == 0 || !(gathering || reducing))
      program.requireAtLeast(to.time - Expression(from.time),
                             shares[LaneWork::Compute] * computeTime + workOf(shares, from, to));
}

void FluidProgram::addLanes() {
  const bool hasChunks = std::ranges::any_of(
      gathers, [](const FluidGather &gather) { return !gather.choices.empty(); });
  for (const FluidSegment &segment : segments) {
    if (segment.launch.time != segment.before.time)
      addLaneRows(segment.before, segment.launch, false, {});
    if (segment.start.time != segment.launch.time)
      addLaneRows(segment.launch, segment.start, false, {});
    const bool isComputing = segment.durationNs > 0 || hasChunks;
    addLaneRows(segment.start, segment.after, isComputing,
                segment.durationNs / timeUnitNs + segment.copyTime);
  }
}
