//===- FluidReplicas.cpp - What goes on over replicas ---------------------===//

#include "FluidRows.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

using namespace fsdp::schedule;

/// Of what goes on over replicas the program knows how many bytes the lane has behind it where a
/// reduction gets ready and where an update starts:
///   at least the shards of all updates up to there, at most those that are ready;
///   no more than what the reductions' lane has behind it leaves, since it goes on from there;
///   between two of them, no more than the time allows. A busy lane slows computation down; what
///   it takes then is on top of computation, waits included.
/// While the lane is busy beside others all are slower (contention a with it, c of the others with
/// each other). Whichever are busy, its work, a - 1 times that of one of the others and
/// (a - 1) (c - 1) times that of the third are done at a rate of at most 1: their sum takes its
/// time. Of gathers by copy engines it slows computation down by a share of that. Each update comes
/// after its reduction and its way over replicas, one after the other.
void FluidRows::addReplicas() {
  if (!windows.acrossCost)
    return;
  const std::vector<ReductionWindow> &reductions = windows.reductions;
  double perByte = windows.acrossCost->nsPerByte * choices.byteUnit / timeUnitNs;
  double slowdown = 1 - 1 / problem.computeContention, mostLeft = 0, totalBytes = 0;
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
  double share = problem.acrossContention - 1, leastSlowdown = problem.leastGatherSlowdown();
  double due = 0, compute = 0;
  uint32_t ready = 0;
  auto addMoment = [&](const Moment &moment) {
    Column bytes = program.addColumn(due, readyBytes[ready]);
    if (std::isfinite(mostLeft))
      program.requireAtLeast(mostLeft * Expression(moment.reducedBytes), bytes);
    Expression work = perByte * (bytes - Expression(lastBytes));
    Expression time = moment.time - Expression(last->time);
    program.requireAtLeast(work, 0);
    program.requireAtLeast(time, work);
    program.requireAtLeast(time, compute + slowdown * work);
    if (share > 0) {
      Expression gather = costs.gatherWork(*last, moment), reduce = costs.reduceWork(*last, moment);
      const std::pair<double, double> both[] = {{share, share * (overlap - 1)},
                                                {share * (overlap - 1), share}};
      for (auto [ofGathers, ofReductions] : std::span(both).first(overlap == 2 ? 1 : 2)) {
        program.requireAtLeast(time, work + ofGathers * gather + ofReductions * reduce);
        program.requireAtLeast(time,
                               compute + slowdown * (work + leastSlowdown * ofGathers * gather +
                                                     ofReductions * reduce));
      }
    }
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
