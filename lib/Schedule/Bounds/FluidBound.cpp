//===- FluidBound.cpp - The lower bound of a linear program ---------------===//
//
// An LP relaxation in which lanes work like pipes. Columns give the time, and the bytes and
// latencies that each lane has done, at the start and the end of each segment. Every plan is a
// point of the program: take its timeline, and split the time of each collective into its latency
// and its bytes.
//
// Two facts about plans are used throughout. A collective on which a lane has worked by the end of
// operation i was launched at position i or before. A collective for which computation waits at
// position i has ended when operation i starts.
//
//===----------------------------------------------------------------------===//

#include "FluidRows.h"
#include "fsdp/Schedule/LowerBound.h"

#include <algorithm>
#include <cmath>

using namespace fsdp::schedule;

namespace {

struct FluidModel {
  LinearProgram program;
  Column makespan;       // in units of timeUnitNs, like every time of the program
  double timeUnitNs = 1; // keeps the program's coefficients near 1
  /// By use and by reduction; the default column if the problem leaves no choice.
  std::vector<Column> kept, chunked, mergedGathers, mergedReductions;
};

} // namespace

/// A power of two, so that division by it is exact.
static double roundToUnit(double value) {
  return value > 0 ? std::exp2(std::floor(std::log2(value))) : 1;
}

/// The duration of all work one after another. Some optimal plan takes no longer.
static double serialNs(const Problem &problem) {
  double ns = 0;
  for (const Operation &operation : problem.operations)
    ns += operation.durationNs;
  for (uint32_t i = 0; i < problem.uses.size(); ++i)
    ns += problem.ofGather({&i, 1}, {}, false).totalNs();
  for (uint32_t i = 0; i < problem.reductions.size(); ++i)
    ns += problem.ofReduction({&i, 1}).totalNs() + problem.ofAcross({&i, 1}).totalNs();
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

static FluidModel buildFluidModel(const Problem &problem, const FluidOptions &options) {
  FluidModel model;
  CollectiveWindows windows = findCollectiveWindows(problem);
  std::vector<Segment> runs = findSegments(problem, windows, options.coarsen);
  double totalNs = serialNs(problem), byteUnit = findByteUnit(windows);
  model.timeUnitNs = roundToUnit(totalNs / 1024);

  LaneCosts costs;
  costs.gatherPerByte = windows.gatherCost.nsPerByte * byteUnit / model.timeUnitNs;
  costs.reducePerByte = windows.reduceCost.nsPerByte * byteUnit / model.timeUnitNs;
  if (!options.ignoreLatency) {
    costs.gatherLatency = windows.gatherCost.latencyNs / model.timeUnitNs;
    costs.reduceLatency = windows.reduceCost.latencyNs / model.timeUnitNs;
  }
  FluidChoices choices = addChoices(windows, runs, costs.gatherLatency > 0, costs.reduceLatency > 0,
                                    byteUnit, model.timeUnitNs, model.program);
  std::vector<FluidSegment> segments =
      addMoments(windows, runs, choices, costs, totalNs / model.timeUnitNs, model.program);

  FluidRows rows{problem, windows, choices, segments, costs, model.timeUnitNs, model.program};
  rows.addGatherWork();
  rows.addReductionWork();
  rows.addMergedGathers();
  rows.addMergedReductions();
  rows.addSingleCollectives();
  rows.addLanes();
  rows.addReplicas();
  rows.addMemory();
  rows.addTurns();

  model.makespan = segments.back().after.time;
  model.program.setCost(model.makespan, 1);
  model.kept.resize(problem.uses.size());
  model.chunked.resize(problem.uses.size());
  model.mergedGathers.resize(problem.uses.size());
  for (size_t j = 0; j < windows.gathers.size(); ++j) {
    model.kept[windows.gathers[j].use] = choices.kept[j];
    model.chunked[windows.gathers[j].use] = choices.chunked[j];
    model.mergedGathers[windows.gathers[j].use] = choices.mergedGathers[j];
  }
  model.mergedReductions = choices.mergedReductions;
  return model;
}

static std::vector<double> valuesOf(const std::vector<Column> &columns,
                                    const LinearProgram::Solution &solution) {
  std::vector<double> values;
  for (Column column : columns)
    values.push_back(std::clamp(solution.valueOf(column), 0.0, 1.0));
  return values;
}

LowerBound fsdp::schedule::fluidBound(const Problem &problem, const FluidOptions &options) {
  LowerBound bound = quickBound(problem);
  if (problem.operations.empty())
    return bound;
  FluidModel model = buildFluidModel(problem, options);
  auto raise = [&](double makespan) {
    if (double makespanNs = makespan * model.timeUnitNs; makespanNs > bound.makespanNs) {
      bound.makespanNs = makespanNs;
      bound.kind = BoundKind::Fluid;
    }
  };
  std::optional<LinearProgram::Solution> solution = model.program.solve(options.iterationLimit);
  if (!solution)
    return bound;
  raise(solution->bound);
  bound.kept = valuesOf(model.kept, *solution);
  std::vector<int32_t> previous = problem.previousUses();
  for (size_t u = 0; u < problem.uses.size(); ++u)
    if (previous[u] >= 0 && problem.groups[problem.uses[u].group].keep == KeepRule::Always)
      bound.kept[u] = 1;
  bound.chunked = valuesOf(model.chunked, *solution);
  bound.mergedGathers = valuesOf(model.mergedGathers, *solution);
  bound.mergedReductions = valuesOf(model.mergedReductions, *solution);
  return bound;
}
