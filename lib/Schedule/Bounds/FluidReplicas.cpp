//===- FluidReplicas.cpp - All-reduces over replicas ----------------------===//

#include "FluidProgram.h"

#include <algorithm>
#include <cmath>

using namespace fsdp::schedule;

/// A column per moment counts the bytes that the lane of all-reduces over replicas has done. The
/// moments are where a reduction gets ready and where an update starts. The bytes done are
///   at least the shards of all updates up to the moment, and at most the shards that are ready;
///   at most the shards of the bytes that the lane of reductions has done, since an all-reduce
///   starts after its reduction;
///   between two moments, at most the bytes for which there is time beside computation, waits
///   included, and the work of the other lanes.
/// Each update starts after its reduction and then its all-reduce have run one after the other.
void FluidProgram::addReplicas() {
  if (!windows.acrossCost)
    return;
  double perByte = windows.acrossCost->nsPerByte * byteUnit / timeUnitNs;
  double mostLeft = 0, totalBytes = 0;
  std::vector<double> readyBytes{0}, dueBytes(problem.operations.size());
  for (const FluidReduction &reduction : reductions) {
    double bytes = reduction.acrossByteShare * double(reduction.outputBytes) / byteUnit;
    readyBytes.push_back(totalBytes += bytes);
    if (!reduction.acrossCost)
      continue;
    dueBytes[reduction.update] += bytes;
    if (bytes > 0)
      mostLeft = std::max(mostLeft, bytes / reduction.size);
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
  // Weights without all-reduces over replicas have their rows in FluidWork.cpp.
  std::erase_if(sharesWithAcross,
                [](const LaneShares &shares) { return shares[LaneWork::AcrossBytes] == 0; });
  double due = 0, compute = 0;
  uint32_t ready = 0;
  auto addMoment = [&](const Moment &moment) {
    Column bytes = program.addColumn(due, readyBytes[ready]);
    if (std::isfinite(mostLeft))
      program.requireAtLeast(mostLeft * Expression(moment.reductions.bytes), bytes);
    Expression work = perByte * (bytes - Expression(lastBytes));
    Expression time = moment.time - Expression(last->time);
    program.requireAtLeast(work, 0);
    for (const LaneShares &shares : sharesWithAcross)
      program.requireAtLeast(time, shares[LaneWork::Compute] * compute +
                                       shares[LaneWork::AcrossBytes] * work +
                                       workOf(shares, *last, moment));
    lastBytes = bytes;
    last = &moment;
    compute = 0;
  };
  for (const FluidSegment &segment : segments) {
    if (segment.reductions.becomeLaunchable)
      addMoment(segment.before);
    ready = segment.reductions.launchable;
    if (segment.replicasBecomeDue) {
      due += dueBytes[segment.begin];
      addMoment(segment.start);
    }
    compute += segment.durationNs / timeUnitNs;
  }
}
