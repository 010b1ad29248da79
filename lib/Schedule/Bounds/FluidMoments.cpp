//===- FluidMoments.cpp - Time and lanes at the ends of segments ----------===//

#include "FluidMoments.h"

#include <algorithm>

using namespace fsdp::schedule;

Expression LaneCosts::workOf(const LaneShares &shares, const Moment &from, const Moment &to) const {
  Expression work;
  auto add = [&](LaneWork kind, double cost, Column before, Column after) {
    if (double weight = shares[kind] * cost; weight > 0)
      work += weight * (after - Expression(before));
  };
  add(LaneWork::GatherBytes, gatherPerByte, from.gatheredBytes, to.gatheredBytes);
  add(LaneWork::GatherLatency, gatherLatency, from.gatherLatencies, to.gatherLatencies);
  add(LaneWork::ReduceBytes, reducePerByte, from.reducedBytes, to.reducedBytes);
  add(LaneWork::ReduceLatency, reduceLatency, from.reduceLatencies, to.reduceLatencies);
  return work;
}

/// Entry j: the least gate of the gathers from j on.
static std::vector<uint32_t> findLeastGates(const CollectiveWindows &windows) {
  std::vector<uint32_t> gates(windows.gathers.size());
  uint32_t least = UINT32_MAX;
  for (size_t j = gates.size(); j-- > 0;)
    gates[j] = least = std::min(least, windows.gathers[j].gate);
  return gates;
}

static std::vector<FluidSegment> countWindows(const CollectiveWindows &windows,
                                              const std::vector<Segment> &segments,
                                              const FluidChoices &choices) {
  std::vector<uint32_t> leastGates = findLeastGates(windows);
  std::vector<uint8_t> isUpdate(windows.slackBytes.size());
  for (const ReductionWindow &reduction : windows.reductions)
    isUpdate[reduction.update] |= reduction.acrossCost.has_value();
  std::vector<FluidSegment> result;
  FluidSegment now;
  for (const Segment &segment : segments) {
    FluidSegment before = now;
    now.segment = segment;
    now.launchedGathers = now.launchableGathers;
    while (now.dueGathers < windows.gathers.size() &&
           windows.gathers[now.dueGathers].first <= segment.begin)
      ++now.dueGathers;
    while (now.launchableGathers < leastGates.size() &&
           leastGates[now.launchableGathers] <= segment.begin)
      ++now.launchableGathers;
    while (now.readyReductions < windows.reductions.size() &&
           windows.reductions[now.readyReductions].ready <= segment.begin)
      ++now.readyReductions;
    while (now.dueReductions < windows.reductions.size() &&
           windows.reductions[choices.byDeadline[now.dueReductions]].deadline <= segment.begin)
      ++now.dueReductions;
    now.gathersBecomeDue = now.dueGathers > before.dueGathers;
    now.reductionsBecomeDue = now.dueReductions > before.dueReductions;
    now.reductionsGetReady = now.readyReductions > before.readyReductions;
    now.replicasBecomeDue = isUpdate[segment.begin];
    result.push_back(now);
  }
  return result;
}

/// A moment after `last`. A lane without work between the two moments keeps its columns.
static Moment addMoment(const Moment &last, const CollectiveWindows &windows,
                        const FluidChoices &choices, const LaneCosts &costs, bool gathers,
                        bool reductions, double horizon, LinearProgram &program) {
  auto addProgress = [&](Column column, double most) {
    Column next = program.addColumn(0, most);
    if (column)
      program.requireAtLeast(next, column);
    return next;
  };
  Moment moment = last;
  moment.time = program.addColumn(0, horizon);
  if (gathers) {
    moment.gatheredBytes = addProgress(last.gatheredBytes, choices.mostGatherBytes);
    if (costs.gatherLatency > 0)
      moment.gatherLatencies = addProgress(last.gatherLatencies, double(windows.gathers.size()));
  }
  if (reductions) {
    moment.reducedBytes = addProgress(last.reducedBytes, choices.readyBytes.back());
    if (costs.reduceLatency > 0)
      moment.reduceLatencies = addProgress(last.reduceLatencies, double(windows.reductions.size()));
  }
  return moment;
}

std::vector<FluidSegment> fsdp::schedule::addMoments(const CollectiveWindows &windows,
                                                     const std::vector<Segment> &segments,
                                                     const FluidChoices &choices,
                                                     const LaneCosts &costs, double horizon,
                                                     LinearProgram &program) {
  std::vector<FluidSegment> result = countWindows(windows, segments, choices);
  size_t numGathers = windows.gathers.size(), numReductions = windows.reductions.size();
  Moment last;
  uint32_t dueGathers = 0, dueReductions = 0;
  for (FluidSegment &segment : result) {
    auto add = [&] {
      bool gathers = dueGathers < numGathers && segment.launchableGathers > 0;
      bool reductions = dueReductions < numReductions && segment.readyReductions > 0;
      return addMoment(last, windows, choices, costs, gathers, reductions, horizon, program);
    };
    segment.before = last;
    // A single operation may have to wait for a reduction's memory. In a longer segment at whose
    // start nothing is due, a wait counts as part of the segment.
    bool waits = segment.gathersBecomeDue || segment.reductionsBecomeDue ||
                 segment.replicasBecomeDue ||
                 (segment.segment.isSingle() && segment.readyReductions > 0 &&
                  dueReductions < numReductions);
    segment.launch = last;
    bool followsReductions =
        segment.reductionsBecomeDue && segment.launchableGathers > segment.launchedGathers;
    if (followsReductions)
      segment.launch = segment.reduced = last = add();
    if (waits)
      last = add();
    segment.start = last;
    if (!followsReductions)
      segment.reduced = last;
    dueGathers = segment.dueGathers;
    dueReductions = segment.dueReductions;
    segment.after = last = add();
  }
  return result;
}
