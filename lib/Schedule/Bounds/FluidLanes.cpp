//===- FluidLanes.cpp - How much work fits into a stretch of time ---------===//

#include "FluidRows.h"

#include <algorithm>

using namespace fsdp::schedule;

/// Within a stretch of length t let one lane be busy alone for a, the other for b, and both for c,
/// so that they do a + c / overlap and b + c / overlap of work (overlap <= 2; with one lane c = 0).
///   Lane: the one's work plus (overlap - 1) times the other's is at most a + b + c <= t.
///   Computation of length d slows down by the contention k where it meets a busy lane: it takes d
///   plus (1 - 1/k) of the busy time a + b + c, and that is at least the sum above. Where a gather
///   alone may count for a share s of that, by copy engines, s a + b + c is at least s times the
///   gathers' work plus min(1, overlap - s) times the reductions', and at least min(s, overlap - 1)
///   times the gathers' plus the reductions'.
void FluidRows::addLaneRows(const Moment &from, const Moment &to, bool isComputing,
                            const Expression &computeTime) {
  double slowdown = 1 - 1 / problem.computeContention, share = problem.leastGatherSlowdown();
  bool gathers = from.gatheredBytes != to.gatheredBytes;
  bool reductions = from.reducedBytes != to.reducedBytes;
  bool both = gathers && reductions;
  if (gathers)
    addStretch(from, to, 0, 1, both ? overlap - 1 : 0);
  if (reductions && !(both && overlap == 2))
    addStretch(from, to, 0, both ? overlap - 1 : 0, 1);
  if (!isComputing && (gathers || reductions))
    return; // work is not negative
  if (slowdown == 0 || (!gathers && !reductions))
    addStretch(from, to, computeTime, 0, 0);
  else if (gathers)
    addStretch(from, to, computeTime, slowdown * share,
               both ? slowdown * std::min(1., overlap - share) : 0);
  if (slowdown > 0 && reductions && !(both && overlap == 2))
    addStretch(from, to, computeTime, both ? slowdown * std::min(share, overlap - 1) : 0, slowdown);
}

void FluidRows::addStretch(const Moment &from, const Moment &to, const Expression &computeTime,
                           double gatherShare, double reduceShare) {
  program.requireAtLeast(to.time - Expression(from.time),
                         computeTime + gatherShare * costs.gatherWork(from, to) +
                             reduceShare * costs.reduceWork(from, to));
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
