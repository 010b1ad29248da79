//===- FluidReplicas.cpp - What goes on over replicas ---------------------===//

#include "FluidRows.h"

#include <algorithm>
#include <cmath>

using namespace fsdp::schedule;

/// Of what goes on over replicas the program knows how many bytes the lane has behind it where a
/// reduction gets ready and where an update starts:
///   at least the shards of all updates up to there, at most those that are ready;
///   no more than what the reductions' lane has behind it leaves, since it goes on from there;
///   between two of them, no more than the time allows beside computation, waits included, and
///   what the other lanes do.
/// Each update comes after its reduction and its way over replicas, one after the other.
void FluidRows::addReplicas() {
  if (!windows.acrossCost)
    return;
  const std::vector<ReductionWindow> &reductions = windows.reductions;
  double perByte = windows.acrossCost->nsPerByte * choices.byteUnit / timeUnitNs;
  double mostLeft = 0, totalBytes = 0;
  std::vector<double> readyBytes{0}, dueBytes(problem.operations.size());
  for (const ReductionWindow &reduction : reductions) {
    double bytes = reduction.acrossByteShare * double(reduction.outputBytes);
    readyBytes.push_back(totalBytes += bytes / choices.byteUnit);
    if (!reduction.acrossCost)
      continue;
    dueBytes[reduction.update] += bytes / choices.byteUnit;
    if (bytes > 0)
      mostLeft = std::max(mostLeft, bytes / (reduction.shares.byte * double(reduction.inputBytes)));
    double duration = (reduction.cost.durationNs(reduction.inputBytes) +
                       reduction.acrossCost->durationNs(reduction.outputBytes)) /
                      timeUnitNs;
    program.requireAtLeast(segmentAt(reduction.update).start.time,
                           segmentAt(reduction.ready).before.time + Expression(duration));
  }

  Column lastBytes;
  const Moment *last = &segments.front().before;
  std::vector<LaneShares> sharesWithAcross =
      findLaneShares(problem, {.gathers = true, .reductions = true, .across = true});
  // The others are rows of FluidLanes.cpp.
  std::erase_if(sharesWithAcross,
                [](const LaneShares &shares) { return shares[LaneWork::AcrossBytes] == 0; });
  double due = 0, compute = 0;
  uint32_t ready = 0;
  auto addMoment = [&](const Moment &moment) {
    Column bytes = program.addColumn(due, readyBytes[ready]);
    if (std::isfinite(mostLeft))
      program.requireAtLeast(mostLeft * Expression(moment.reducedBytes), bytes);
    Expression work = perByte * (bytes - Expression(lastBytes));
    Expression time = moment.time - Expression(last->time);
    program.requireAtLeast(work, 0);
    for (const LaneShares &shares : sharesWithAcross)
      program.requireAtLeast(time, shares[LaneWork::Compute] * compute +
                                       shares[LaneWork::AcrossBytes] * work +
                                       costs.workOf(shares, *last, moment));
    lastBytes = bytes;
    last = &moment;
    compute = 0;
  };
  for (const FluidSegment &segment : segments) {
    if (segment.reductionsGetReady)
      addMoment(segment.before);
    ready = segment.readyReductions;
    if (segment.replicasBecomeDue) {
      due += dueBytes[segment.segment.begin];
      addMoment(segment.start);
    }
    compute += segment.segment.durationNs / timeUnitNs;
  }
}
