//===- FluidChoices.cpp - What is kept and merged, in a linear program ----===//

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
    Column kept, merged;
    if (gather.keepable)
      kept = addChoice(program);
    if (merge && gather.mergeable)
      merged = addChoice(program);
    if (kept && merged)
      program.requireAtLeast(1, kept + Expression(merged));
    choices.kept.push_back(kept);
    choices.mergedGathers.push_back(merged);
  }
}

/// Running sums of what keeping and merging save, as what remains.
static void addGatherSums(const CollectiveWindows &windows, FluidChoices &choices,
                          LinearProgram &program) {
  Column savedBytes, savedLatencies;
  double bytes = 0;
  choices.gatherBytes.push_back({});
  choices.gatherLatencies.push_back({});
  for (size_t j = 0; j < windows.gathers.size(); ++j) {
    double sizeBytes = double(windows.gathers[j].sizeBytes) / choices.byteUnit;
    Column kept = choices.kept[j], merged = choices.mergedGathers[j];
    bytes += sizeBytes;
    if (kept)
      savedBytes = addSum(savedBytes + sizeBytes * Expression(kept), bytes, program);
    if (kept || merged)
      savedLatencies = addSum(savedLatencies + (kept + Expression(merged)), double(j + 1), program);
    choices.gatherBytes.push_back(bytes - Expression(savedBytes));
    choices.gatherLatencies.push_back(double(j + 1) - Expression(savedLatencies));
  }
  choices.mostGatherBytes = bytes;
}

static void addReductionSums(const CollectiveWindows &windows, FluidChoices &choices,
                             LinearProgram &program) {
  auto sumOver = [&](const std::vector<uint32_t> &order, std::vector<double> &bytes,
                     std::vector<Expression> &latencies) {
    Column saved;
    bytes.push_back(0);
    latencies.push_back({});
    for (uint32_t r : order) {
      bytes.push_back(bytes.back() + double(windows.reductions[r].inputBytes) / choices.byteUnit);
      if (Column merged = choices.mergedReductions[r])
        saved = addSum(saved + Expression(merged), double(order.size()), program);
      latencies.push_back(double(latencies.size()) - Expression(saved));
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
  // By position: copies that begin or end to stay there.
  std::vector<Expression> changes(windows.slackBytes.size() + 1);
  std::vector<uint8_t> changed(changes.size());
  double most = 0;
  for (size_t j = 0; j < windows.gathers.size(); ++j) {
    const GatherWindow &gather = windows.gathers[j];
    if (!choices.kept[j] || gather.keptFrom == gather.first)
      continue;
    double sizeBytes = double(gather.sizeBytes) / choices.byteUnit;
    changes[gather.keptFrom].add(choices.kept[j], sizeBytes);
    changes[gather.first].add(choices.kept[j], -sizeBytes);
    changed[gather.keptFrom] = changed[gather.first] = 1;
    most += sizeBytes;
  }
  Column bytes;
  for (const Segment &segment : segments) {
    if (changed[segment.begin])
      bytes = addSum(bytes + changes[segment.begin], most, program);
    choices.keptBytes.push_back(bytes);
  }
}

FluidChoices fsdp::schedule::addChoices(const CollectiveWindows &windows,
                                        const std::vector<Segment> &segments, bool mergeGathers,
                                        bool mergeReductions, double byteUnit,
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
  return choices;
}
