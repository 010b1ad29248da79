//===- FluidColumns.cpp - Segments and columns of the fluid bound ---------===//

#include "FluidProgram.h"

#include <algorithm>
#include <cassert>
#include <numeric>

using namespace fsdp::schedule;

//===----------------------------------------------------------------------===//
// Segments
//===----------------------------------------------------------------------===//

/// A segment begins at each position at which a window of a gather or a reduction begins or ends,
/// and at each update that waits for replicas.
static std::vector<uint8_t> findCuts(const CollectiveWindows &windows, bool coarsen) {
  size_t n = windows.slackBytes.size();
  std::vector<uint8_t> cuts(n + 1, coarsen ? 0 : 1);
  cuts[0] = cuts[n] = 1;
  for (const GatherWindow &gather : windows.gathers) {
    cuts[gather.gate] = cuts[gather.first] = 1; // a copy that may be kept has its gate at keptFrom
    if (!gather.chunks.empty())
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

void FluidProgram::addSegments(bool coarsen) {
  const std::vector<int64_t> &slack = windows.slackBytes;
  std::vector<uint8_t> cuts = findCuts(windows, coarsen);
  if (coarsen && problem.memoryCapBytes)
    cutBehindTightest(slack, cuts);
  for (uint32_t i = 0; i < slack.size(); ++i) {
    if (cuts[i])
      segments.emplace_back().begin = i;
    FluidSegment &segment = segments.back();
    segment.end = i + 1;
    segment.durationNs += problem.operations[i].durationNs;
    segment.leastSlackBytes = std::min(segment.leastSlackBytes, slack[i]);
    segment.lastSlackBytes = slack[i];
  }
}

const FluidSegment &FluidProgram::segmentAt(uint32_t position) const {
  auto segment = std::ranges::lower_bound(segments, position, {}, &FluidSegment::begin);
  assert(segment != segments.end() && segment->begin == position && "windows begin with segments");
  return *segment;
}

//===----------------------------------------------------------------------===//
// Choices
//===----------------------------------------------------------------------===//

void FluidProgram::addChoices() {
  auto addChoice = [&](bool isPossible) { return isPossible ? program.addColumn(0, 1) : Column(); };
  const bool merge = gatherCost.latency > 0;
  for (const GatherWindow &window : windows.gathers) {
    FluidGather gather{window, double(window.sizeBytes) / byteUnit};
    gather.kept = addChoice(gather.keepable);
    gather.merged = addChoice(merge && gather.mergeable);
    for (const ChunkWindow &chunk : gather.chunks) {
      FluidChunk choice{chunk};
      choice.begun = choice.chosen = addChoice(true);
      if (gather.merged) {
        choice.begun = addChoice(true);
        program.requireAtLeast(choice.chosen, choice.begun);
      }
      gather.choices.push_back(std::move(choice));
      mostChunkShare = std::max(mostChunkShare, chunk.shares.byte);
    }
    if (gather.choices.size() + (gather.kept ? 1 : 0) > 1)
      program.requireAtLeast(1, gather.kept + gather.sumOf(&FluidChunk::chosen));
    if (gather.merged && gather.mayBeLess())
      program.requireAtLeast(1, gather.kept + Expression(gather.merged) +
                                    gather.sumOf(&FluidChunk::begun));
    gathers.push_back(std::move(gather));
  }
  const bool mergeReductions = reduceCost.latency > 0;
  for (const ReductionWindow &window : windows.reductions)
    reductions.push_back({window, window.shares.byte * double(window.inputBytes) / byteUnit,
                          addChoice(mergeReductions && window.mergeable)});
}

Column FluidProgram::addSum(const Expression &sum, double most) {
  Column column = program.addColumn(0, most);
  program.requireEqual(column, sum);
  return column;
}

/// The columns are running sums of the bytes and latencies that keeping, merging and gathering from
/// chunks save. The expressions are the bytes and latencies that remain.
void FluidProgram::addGatherSums() {
  Column savedBytes, savedLatencies, notWhole;
  double latencies = 0, copyBytes = 0;
  for (const FluidGather &gather : gathers) {
    const CostShares &shares = gather.shares;
    const double size = gather.size;
    Expression lessBytes, fewerLatencies; // of gathers from chunks
    for (const FluidChunk &choice : gather.choices) {
      lessBytes += size * (shares.byte - choice.shares.byte) * Expression(choice.chosen);
      fewerLatencies += (shares.latency - choice.shares.latency) * Expression(choice.begun);
    }
    gatherWork.mostBytes += size * shares.byte;
    latencies += shares.latency;
    if (gather.mayBeLess())
      savedBytes = addSum(savedBytes + size * shares.byte * Expression(gather.kept) + lessBytes,
                          gatherWork.mostBytes);
    copyBytes += size;
    if (mostChunkShare > 0 && gather.mayBeLess())
      notWhole =
          addSum(notWhole + size * (gather.kept + gather.sumOf(&FluidChunk::chosen)), copyBytes);
    wholeBytes.push_back(copyBytes - Expression(notWhole));
    if (gather.merged || gather.mayBeLess())
      savedLatencies =
          addSum(savedLatencies + shares.latency * (gather.kept + Expression(gather.merged)) +
                     fewerLatencies,
                 latencies);
    gatherWork.bytes.push_back(gatherWork.mostBytes - Expression(savedBytes));
    gatherWork.latencies.push_back(latencies - Expression(savedLatencies));
  }
}

WorkSums FluidProgram::sumReductions(const std::vector<uint32_t> &order) {
  WorkSums sums;
  Column saved;
  double latencies = 0;
  for (uint32_t index : order) {
    const FluidReduction &reduction = reductions[index];
    sums.bytes.push_back(sums.mostBytes += reduction.size);
    latencies += reduction.shares.latency;
    if (reduction.merged)
      saved = addSum(saved + reduction.shares.latency * Expression(reduction.merged),
                     double(order.size()));
    sums.latencies.push_back(latencies - Expression(saved));
  }
  return sums;
}

void FluidProgram::addReductionSums() {
  byDeadline.resize(reductions.size());
  std::iota(byDeadline.begin(), byDeadline.end(), 0);
  readyWork = sumReductions(byDeadline);
  std::ranges::stable_sort(byDeadline, {},
                           [&](uint32_t index) { return reductions[index].deadline; });
  deadlineWork = sumReductions(byDeadline);
}

/// The last operation of a use makes its chunk, and a segment ends with this operation. Chunks on
/// the host count as if they were stored at once.
void FluidProgram::addKeptBytes() {
  // By position: bytes that become live minus bytes that die, of kept copies and chunks; the time
  // to make chunks before it.
  std::vector<Expression> changes(windows.slackBytes.size() + 1), copyTimes(changes.size());
  double most = 0;
  for (const FluidGather &gather : gathers) {
    auto stays = [&](Column choice, double size) {
      if (!choice || gather.keptFrom == gather.first)
        return;
      changes[gather.keptFrom].add(choice, size);
      changes[gather.first].add(choice, -size);
      most += size;
    };
    stays(gather.kept, gather.size);
    for (const FluidChunk &choice : gather.choices) {
      if (!choice.chunk.isOnHost)
        stays(choice.chosen, double(choice.chunk.bytes) / byteUnit);
      copyTimes[gather.keptFrom].add(choice.chosen, choice.chunk.copyNs / timeUnitNs);
    }
  }
  Column bytes;
  for (FluidSegment &segment : segments) {
    if (!changes[segment.begin].isConstant())
      bytes = addSum(bytes + changes[segment.begin], most);
    segment.keptBytes = bytes;
    segment.copyTime = copyTimes[segment.end];
  }
}

//===----------------------------------------------------------------------===//
// Moments
//===----------------------------------------------------------------------===//

Expression FluidProgram::workOf(const LaneShares &shares, const Moment &from,
                                const Moment &to) const {
  Expression work;
  auto add = [&](LaneWork kind, double cost, Column before, Column after) {
    if (double weight = shares[kind] * cost; weight > 0)
      work += weight * (after - Expression(before));
  };
  add(LaneWork::GatherBytes, gatherCost.perByte, from.gathers.bytes, to.gathers.bytes);
  add(LaneWork::GatherLatency, gatherCost.latency, from.gathers.latencies, to.gathers.latencies);
  add(LaneWork::ReduceBytes, reduceCost.perByte, from.reductions.bytes, to.reductions.bytes);
  add(LaneWork::ReduceLatency, reduceCost.latency, from.reductions.latencies,
      to.reductions.latencies);
  return work;
}

void FluidProgram::countWindows() {
  // Entry j: the least gate of the gathers from j on.
  std::vector<uint32_t> leastGates(gathers.size());
  for (size_t j = gathers.size(); j-- > 0;)
    leastGates[j] =
        std::min(gathers[j].gate, j + 1 < gathers.size() ? leastGates[j + 1] : UINT32_MAX);
  std::vector<uint8_t> isUpdate(windows.slackBytes.size());
  for (const ReductionWindow &reduction : reductions)
    isUpdate[reduction.update] |= reduction.acrossCost.has_value();
  auto deadlineOf = [&](uint32_t index) { return reductions[index].deadline; };
  LaneWindows ofGathers, ofReductions;
  for (FluidSegment &segment : segments) {
    auto count = [&](const auto &sorted, auto positionOf) {
      return uint32_t(std::ranges::upper_bound(sorted, segment.begin, {}, positionOf) -
                      sorted.begin());
    };
    auto setLane = [&](LaneWindows &lane, uint32_t due, uint32_t launchable) {
      lane = {due, launchable, due > lane.due, launchable > lane.launchable};
    };
    setLane(ofGathers, count(gathers, &FluidGather::first), count(leastGates, std::identity()));
    setLane(ofReductions, count(byDeadline, deadlineOf), count(reductions, &FluidReduction::ready));
    segment.gathers = ofGathers;
    segment.reductions = ofReductions;
    segment.replicasBecomeDue = isUpdate[segment.begin];
  }
}

/// A moment after `last`. A lane without work between the two moments keeps its columns.
Moment FluidProgram::addMoment(const Moment &last, bool gathering, bool reducing) {
  auto advance = [&](Column &column, double most) {
    Column next = program.addColumn(0, most);
    if (column)
      program.requireAtLeast(next, column);
    column = next;
  };
  auto advanceLane = [&](LaneProgress &lane, const WorkSums &work, const LaneCost &cost) {
    advance(lane.bytes, work.mostBytes);
    if (cost.latency > 0)
      advance(lane.latencies, double(work.latencies.size() - 1));
  };
  Moment moment = last;
  moment.time = program.addColumn(0, totalNs / timeUnitNs);
  if (gathering)
    advanceLane(moment.gathers, gatherWork, gatherCost);
  if (reducing)
    advanceLane(moment.reductions, readyWork, reduceCost);
  return moment;
}

void FluidProgram::addMoments() {
  Moment last;
  uint32_t dueGathers = 0, dueReductions = 0;
  for (FluidSegment &segment : segments) {
    auto add = [&] {
      bool gathering = dueGathers < gathers.size() && segment.gathers.launchable > 0;
      bool reducing = dueReductions < reductions.size() && segment.reductions.launchable > 0;
      return addMoment(last, gathering, reducing);
    };
    segment.before = last;
    // A single operation may have to wait for a reduction's memory. In a longer segment at whose
    // start nothing is due, a wait counts as part of the segment.
    bool waits = segment.gathers.becomeDue || segment.reductions.becomeDue ||
                 segment.replicasBecomeDue ||
                 (segment.isSingle() && segment.reductions.launchable > 0 &&
                  dueReductions < reductions.size());
    segment.launch = last;
    bool followsReductions = segment.reductions.becomeDue && segment.gathers.becomeLaunchable;
    if (followsReductions)
      segment.launch = segment.reduced = last = add();
    if (waits)
      last = add();
    segment.start = last;
    if (!followsReductions)
      segment.reduced = last;
    dueGathers = segment.gathers.due;
    dueReductions = segment.reductions.due;
    segment.after = last = add();
  }
}
