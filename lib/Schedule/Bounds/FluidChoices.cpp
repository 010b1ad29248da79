//===- FluidChoices.cpp - Columns for keeping and merging -----------------===//

#include "FluidChoices.h"

#include <algorithm>
#include <numeric>

using namespace fsdp::schedule;

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
