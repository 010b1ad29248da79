//===- FluidModel.cpp - The linear program behind the fluid bound ---------===//

#include "FluidModel.h"

#include "FluidRows.h"

#include <algorithm>
#include <cmath>

using namespace fsdp::schedule;

/// A power of two, so that dividing by it loses nothing.
static double roundToUnit(double value) {
  return value > 0 ? std::exp2(std::floor(std::log2(value))) : 1;
}

/// How long everything takes one after the other: some best plan takes no longer.
static double serialNs(const Problem &problem) {
  double ns = 0;
  for (const Operation &operation : problem.operations)
    ns += operation.durationNs;
  for (const Use &use : problem.uses)
    ns += problem.gatherCost.durationNs(problem.groups[use.group].gatheredBytes);
  for (const Reduction &reduction : problem.reductions)
    ns += problem.reduceCost.durationNs(reduction.inputBytes) +
          (problem.acrossCost ? problem.acrossCost->durationNs(reduction.outputBytes) : 0);
  return ns;
}

static double findByteUnit(const CollectiveWindows &windows) {
  int64_t most = 0;
  for (const GatherWindow &gather : windows.gathers)
    most = std::max(most, gather.sizeBytes);
  for (const ReductionWindow &reduction : windows.reductions)
    most = std::max(most, reduction.inputBytes);
  return roundToUnit(double(most));
}

FluidModel fsdp::schedule::buildFluidModel(const Problem &problem, const FluidOptions &options) {
  FluidModel model;
  CollectiveWindows windows = findCollectiveWindows(problem);
  std::vector<Segment> runs = findSegments(problem, windows, options.coarsen);
  double totalNs = serialNs(problem), byteUnit = findByteUnit(windows);
  model.timeUnitNs = roundToUnit(totalNs / 1024);

  LaneCosts costs;
  costs.gatherPerByte = problem.gatherCost.nsPerByte * byteUnit / model.timeUnitNs;
  costs.reducePerByte = problem.reduceCost.nsPerByte * byteUnit / model.timeUnitNs;
  if (!options.ignoreLatency) {
    costs.gatherLatency = problem.gatherCost.latencyNs / model.timeUnitNs;
    costs.reduceLatency = problem.reduceCost.latencyNs / model.timeUnitNs;
  }
  FluidChoices choices = addChoices(windows, runs, costs.gatherLatency > 0, costs.reduceLatency > 0,
                                    byteUnit, model.program);
  std::vector<FluidSegment> segments =
      addMoments(windows, runs, choices, costs, totalNs / model.timeUnitNs, model.program);

  double overlap = problem.oneLane ? 2 : problem.laneContention;
  FluidRows rows{problem,      windows,          choices, segments,
                 costs,        model.timeUnitNs, overlap, totalNs / model.timeUnitNs,
                 model.program};
  rows.addGatherWork();
  rows.addReductionWork();
  rows.addMergedGathers();
  rows.addMergedReductions();
  rows.addSingleCollectives();
  rows.addChains();
  rows.addLanes();
  rows.addReplicas();
  rows.addMemory();
  rows.addConflicts();
  rows.addExclusions();
  rows.addTurns();
  if (options.thorough) {
    rows.addUnlaunched();
    rows.addBegun();
    rows.addBegunCopies();
    rows.addEndedBuckets();
    rows.addStages();
  }

  model.makespan = segments.back().after.time;
  model.program.setCost(model.makespan, 1);
  model.kept.resize(problem.uses.size());
  model.mergedGathers.resize(problem.uses.size());
  for (size_t j = 0; j < windows.gathers.size(); ++j) {
    model.kept[windows.gathers[j].use] = choices.kept[j];
    model.mergedGathers[windows.gathers[j].use] = choices.mergedGathers[j];
  }
  model.mergedReductions = choices.mergedReductions;
  return model;
}
