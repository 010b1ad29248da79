//===- FluidReplicas.cpp - What goes on over replicas ---------------------===//

#include "FluidRows.h"

#include <algorithm>

using namespace fsdp::schedule;

/// Of what goes on over replicas the program knows how many bytes the lane has behind it where a
/// reduction gets ready and where an update starts:
///   at least the shards of all updates up to there, at most those that are ready;
///   no more than what the reductions' lane has behind it leaves, since it goes on from there;
///   between two of them, no more than the time allows. A busy lane slows computation down; what
///   it takes then is on top of computation, waits included.
/// Each update comes after its reduction and its way over replicas, one after the other.
void FluidRows::addReplicas() {
  if (!problem.acrossCost)
    return;
  const std::vector<ReductionWindow> &reductions = windows.reductions;
  double perByte = problem.acrossCost->nsPerByte * choices.byteUnit / timeUnitNs;
  double slowdown = 1 - 1 / problem.computeContention, mostLeft = 0, totalBytes = 0;
  std::vector<double> readyBytes{0}, dueBytes(problem.operations.size());
  for (const ReductionWindow &reduction : reductions) {
    double bytes = double(reduction.outputBytes) / choices.byteUnit;
    readyBytes.push_back(totalBytes += bytes);
    dueBytes[reduction.update] += bytes;
    if (reduction.inputBytes > 0)
      mostLeft = std::max(mostLeft, double(reduction.outputBytes) / double(reduction.inputBytes));
    double duration = (problem.reduceCost.durationNs(reduction.inputBytes) +
                       problem.acrossCost->durationNs(reduction.outputBytes)) /
                      timeUnitNs;
    program.requireAtLeast(segmentAt(reduction.update).start.time,
                           segmentAt(reduction.ready).before.time + Expression(duration));
  }

  Column lastBytes, lastTime;
  double due = 0, compute = 0;
  uint32_t ready = 0;
  auto addMoment = [&](const Moment &moment) {
    Column bytes = program.addColumn(due, readyBytes[ready]);
    program.requireAtLeast(mostLeft * Expression(moment.reducedBytes), bytes);
    Expression work = perByte * (bytes - Expression(lastBytes));
    Expression time = moment.time - Expression(lastTime);
    program.requireAtLeast(work, 0);
    program.requireAtLeast(time, work);
    program.requireAtLeast(time, compute + slowdown * work);
    lastBytes = bytes;
    lastTime = moment.time;
    compute = 0;
  };
  for (const FluidSegment &segment : segments) {
    program.setPlace(segment.segment.begin);
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
