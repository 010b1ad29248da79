//===- FluidColumns.cpp - Segments and columns of the fluid bound ---------===//

#include "FluidColumns.h"

#include <algorithm>
#include <numeric>

using namespace fsdp::schedule;

//===----------------------------------------------------------------------===//
// Segments
//===----------------------------------------------------------------------===//

static std::vector<uint8_t> findCuts(const CollectiveWindows &windows, bool coarsen) {
  size_t n = windows.slackBytes.size();
  std::vector<uint8_t> cuts(n + 1, coarsen ? 0 : 1);
  cuts[0] = cuts[n] = 1;
  for (const GatherWindow &gather : windows.gathers) {
    cuts[gather.gate] = cuts[gather.first] = 1; // a copy that may be kept has its gate at keptFrom
    if (gather.chunk)
      cuts[gather.keptFrom] = 1;
  }
  for (const ReductionWindow &reduction : windows.reductions) {
    cuts[reduction.ready] = cuts[reduction.deadline] = 1;
    if (reduction.acrossCost)
      cuts[reduction.update] = 1;
  }
  return cuts;
}

static void cutBehindTightest(const std::vector<int64_t> &slack, std::vector<uint8_t> &cuts) {
  for (size_t begin = 0; begin < slack.size();) {
    size_t tightest = begin, end = begin + 1;
    for (; !cuts[end]; ++end)
      if (slack[end] < slack[tightest])
        tightest = end;
    cuts[tightest + 1] = 1;
    begin = end;
  }
}

static Segment summarize(const Problem &problem, const CollectiveWindows &windows, uint32_t begin,
                         uint32_t end) {
  Segment segment{begin, end};
  auto first = windows.slackBytes.begin() + begin, last = windows.slackBytes.begin() + end;
  segment.leastSlackBytes = *std::min_element(first, last);
  segment.lastSlackBytes = *std::prev(last);
  for (uint32_t i = begin; i < end; ++i)
    segment.durationNs += problem.operations[i].durationNs;
  return segment;
}

std::vector<Segment> fsdp::schedule::findSegments(const Problem &problem,
                                                  const CollectiveWindows &windows, bool coarsen) {
  std::vector<uint8_t> cuts = findCuts(windows, coarsen);
  if (coarsen && problem.memoryCapBytes)
    cutBehindTightest(windows.slackBytes, cuts);
  std::vector<Segment> segments;
  for (uint32_t begin = 0, end = 1; end < cuts.size(); ++end) {
    if (!cuts[end])
      continue;
    segments.push_back(summarize(problem, windows, begin, end));
    begin = end;
  }
  return segments;
}

//===----------------------------------------------------------------------===//
// Choices
//===----------------------------------------------------------------------===//

static Column addChoice(LinearProgram &program) { return program.addColumn(0, 1); }

/// A column that equals the sum.
static Column addSum(const Expression &sum, double most, LinearProgram &program) {
  Column column = program.addColumn(0, most);
  program.requireEqual(column, sum);
  return column;
}

static void addGatherChoices(const CollectiveWindows &windows, bool merge, FluidChoices &choices,
                             LinearProgram &program) {
  for (const GatherWindow &gather : windows.gathers) {
    Column kept, merged, chunked, begun;
    if (gather.keepable)
      kept = addChoice(program);
    if (merge && gather.mergeable)
      merged = addChoice(program);
    if (gather.chunk)
      begun = chunked = addChoice(program);
    if (chunked && merged) {
      begun = addChoice(program);
      program.requireAtLeast(chunked, begun);
    }
    if (kept && chunked)
      program.requireAtLeast(1, kept + Expression(chunked));
    if (merged && (kept || chunked))
      program.requireAtLeast(1, kept + Expression(merged) + begun);
    choices.kept.push_back(kept);
    choices.mergedGathers.push_back(merged);
    choices.chunked.push_back(chunked);
    choices.begunChunks.push_back(begun);
  }
}

/// The columns are running sums of the bytes and latencies that keeping, merging and gathering from
/// chunks save. The expressions are the bytes and latencies that remain.
static void addGatherSums(const CollectiveWindows &windows, FluidChoices &choices,
                          LinearProgram &program) {
  Column savedBytes, savedLatencies, notWhole;
  double bytes = 0, latencies = 0, copyBytes = 0;
  for (const GatherWindow &gather : windows.gathers)
    if (gather.chunk)
      choices.mostChunkShare = std::max(choices.mostChunkShare, gather.leastShares.byte);
  choices.gatherBytes.push_back({});
  choices.wholeBytes.push_back({});
  choices.gatherLatencies.push_back({});
  for (size_t j = 0; j < windows.gathers.size(); ++j) {
    const GatherWindow &gather = windows.gathers[j];
    const CostShares &shares = gather.shares, &least = gather.leastShares;
    double sizeBytes = double(gather.sizeBytes) / choices.byteUnit;
    Column kept = choices.kept[j], merged = choices.mergedGathers[j], chunked = choices.chunked[j];
    bytes += sizeBytes * shares.byte;
    latencies += shares.latency;
    if (kept || chunked)
      savedBytes = addSum(savedBytes + sizeBytes * shares.byte * Expression(kept) +
                              sizeBytes * (shares.byte - least.byte) * Expression(chunked),
                          bytes, program);
    copyBytes += sizeBytes;
    if (choices.mostChunkShare > 0 && (kept || chunked))
      notWhole = addSum(notWhole + sizeBytes * (kept + Expression(chunked)), copyBytes, program);
    choices.wholeBytes.push_back(copyBytes - Expression(notWhole));
    if (kept || merged || chunked)
      savedLatencies =
          addSum(savedLatencies + shares.latency * (kept + Expression(merged)) +
                     (shares.latency - least.latency) * Expression(choices.begunChunks[j]),
                 latencies, program);
    choices.gatherBytes.push_back(bytes - Expression(savedBytes));
    choices.gatherLatencies.push_back(latencies - Expression(savedLatencies));
  }
  choices.mostGatherBytes = bytes;
}

static void addReductionSums(const CollectiveWindows &windows, FluidChoices &choices,
                             LinearProgram &program) {
  auto sumOver = [&](const std::vector<uint32_t> &order, std::vector<double> &bytes,
                     std::vector<Expression> &latencies) {
    Column saved;
    double all = 0;
    bytes.push_back(0);
    latencies.push_back({});
    for (uint32_t r : order) {
      const ReductionWindow &reduction = windows.reductions[r];
      bytes.push_back(bytes.back() +
                      reduction.shares.byte * double(reduction.inputBytes) / choices.byteUnit);
      all += reduction.shares.latency;
      if (Column merged = choices.mergedReductions[r])
        saved = addSum(saved + reduction.shares.latency * Expression(merged), double(order.size()),
                       program);
      latencies.push_back(all - Expression(saved));
    }
  };
  std::vector<uint32_t> &byDeadline = choices.byDeadline;
  byDeadline.resize(windows.reductions.size());
  std::iota(byDeadline.begin(), byDeadline.end(), 0);
  sumOver(byDeadline, choices.readyBytes, choices.readyLatencies);
  std::stable_sort(byDeadline.begin(), byDeadline.end(), [&](uint32_t a, uint32_t b) {
    return windows.reductions[a].deadline < windows.reductions[b].deadline;
  });
  sumOver(byDeadline, choices.deadlineBytes, choices.deadlineLatencies);
}

static void addKeptBytes(const CollectiveWindows &windows, const std::vector<Segment> &segments,
                         FluidChoices &choices, LinearProgram &program) {
  // By position: bytes that become live minus bytes that die, of kept copies and chunks.
  std::vector<Expression> changes(windows.slackBytes.size() + 1);
  std::vector<uint8_t> changed(changes.size());
  double most = 0;
  for (size_t j = 0; j < windows.gathers.size(); ++j) {
    const GatherWindow &gather = windows.gathers[j];
    if (!(choices.kept[j] || choices.chunked[j]) || gather.keptFrom == gather.first)
      continue;
    auto stays = [&](Column choice, int64_t sizeBytes) {
      double size = double(sizeBytes) / choices.byteUnit;
      changes[gather.keptFrom].add(choice, size);
      changes[gather.first].add(choice, -size);
      most += size;
    };
    if (choices.kept[j])
      stays(choices.kept[j], gather.sizeBytes);
    if (choices.chunked[j])
      stays(choices.chunked[j], gather.chunk->bytes);
    changed[gather.keptFrom] = changed[gather.first] = 1;
  }
  Column bytes;
  for (const Segment &segment : segments) {
    if (changed[segment.begin])
      bytes = addSum(bytes + changes[segment.begin], most, program);
    choices.keptBytes.push_back(bytes);
  }
}

/// The last operation of a use makes its chunk, and a segment ends with this operation.
static void addCopyTimes(const CollectiveWindows &windows, const std::vector<Segment> &segments,
                         double timeUnitNs, FluidChoices &choices) {
  std::vector<Expression> times(windows.slackBytes.size() + 1); // by position after the operation
  bool isAny = false;
  for (size_t j = 0; j < windows.gathers.size(); ++j)
    if (const GatherWindow &gather = windows.gathers[j]; gather.chunk) {
      times[gather.keptFrom].add(choices.chunked[j], gather.chunk->copyNs / timeUnitNs);
      isAny = true;
    }
  for (const Segment &segment : segments)
    if (isAny)
      choices.copyTimes.push_back(times[segment.end]);
}

FluidChoices fsdp::schedule::addChoices(const CollectiveWindows &windows,
                                        const std::vector<Segment> &segments, bool mergeGathers,
                                        bool mergeReductions, double byteUnit, double timeUnitNs,
                                        LinearProgram &program) {
  FluidChoices choices;
  choices.byteUnit = byteUnit;
  addGatherChoices(windows, mergeGathers, choices, program);
  for (const ReductionWindow &reduction : windows.reductions) {
    choices.mergedReductions.push_back(mergeReductions && reduction.mergeable ? addChoice(program)
                                                                              : Column());
  }
  addGatherSums(windows, choices, program);
  addReductionSums(windows, choices, program);
  addKeptBytes(windows, segments, choices, program);
  addCopyTimes(windows, segments, timeUnitNs, choices);
  return choices;
}

//===----------------------------------------------------------------------===//
// Moments
//===----------------------------------------------------------------------===//

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
