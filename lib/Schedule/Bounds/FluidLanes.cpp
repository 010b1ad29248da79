//===- FluidLanes.cpp - Work that fits into a stretch of time -------------===//

#include "FluidRows.h"

using namespace fsdp::schedule;

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
