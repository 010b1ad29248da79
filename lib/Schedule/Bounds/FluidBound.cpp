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

LowerBound fsdp::schedule::fluidBound(const Problem &problem, const FluidOptions &options) {
  LowerBound bound = quickBound(problem);
  if (problem.operations.empty())
    return bound;
  LinearProgram program;
  CollectiveWindows windows = findCollectiveWindows(problem);
  std::vector<Segment> runs = findSegments(problem, windows, options.coarsen);
  // Units keep the program's coefficients near 1.
  const double totalNs = serialNs(problem), byteUnit = findByteUnit(windows);
  const double timeUnitNs = roundToUnit(totalNs / 1024);
  LaneCosts costs;
  costs.gatherPerByte = windows.gatherCost.nsPerByte * byteUnit / timeUnitNs;
  costs.reducePerByte = windows.reduceCost.nsPerByte * byteUnit / timeUnitNs;
  if (!options.ignoreLatency) {
    costs.gatherLatency = windows.gatherCost.latencyNs / timeUnitNs;
    costs.reduceLatency = windows.reduceCost.latencyNs / timeUnitNs;
  }
  FluidChoices choices = addChoices(windows, runs, costs.gatherLatency > 0, costs.reduceLatency > 0,
                                    byteUnit, timeUnitNs, program);
  std::vector<FluidSegment> segments =
      addMoments(windows, runs, choices, costs, totalNs / timeUnitNs, program);
  FluidRows rows{problem, windows, choices, segments, costs, timeUnitNs, program};
  rows.addGatherWork();
  rows.addReductionWork();
  rows.addMergedGathers();
  rows.addMergedReductions();
  rows.addSingleCollectives();
  rows.addLanes();
  rows.addReplicas();
  rows.addMemory();
  rows.addTurns();
  program.setCost(segments.back().after.time, 1);

  std::optional<LinearProgram::Solution> solution = program.solve(options.iterationLimit);
  if (!solution)
    return bound;
  if (double makespanNs = solution->bound * timeUnitNs; makespanNs > bound.makespanNs) {
    bound.makespanNs = makespanNs;
    bound.kind = BoundKind::Fluid;
  }
  auto valueOf = [&](Column column) { return std::clamp(solution->valueOf(column), 0.0, 1.0); };
  bound.kept.assign(problem.uses.size(), 1); // a use without a window must be kept
  bound.chunked.resize(problem.uses.size());
  bound.mergedGathers.resize(problem.uses.size());
  for (size_t j = 0; j < windows.gathers.size(); ++j) {
    const uint32_t use = windows.gathers[j].use;
    bound.kept[use] = valueOf(choices.kept[j]);
    bound.chunked[use] = valueOf(choices.chunked[j]);
    bound.mergedGathers[use] = valueOf(choices.mergedGathers[j]);
  }
  for (Column merged : choices.mergedReductions)
    bound.mergedReductions.push_back(valueOf(merged));
  return bound;
}
