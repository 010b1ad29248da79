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

#include "FluidProgram.h"

#include <algorithm>
#include <cmath>

using namespace fsdp::schedule;

/// A power of two, so that division by it is exact.
static double roundToUnit(double value) {
  return value > 0 ? std::exp2(std::floor(std::log2(value))) : 1;
}

static double serialNs(const Problem &problem) {
  double ns = problem.reachedNs().back();
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

FluidProgram::FluidProgram(const Problem &problem, const FluidOptions &options)
    : problem(problem), windows(findCollectiveWindows(problem)), reachedNs(problem.reachedNs()),
      totalNs(serialNs(problem)), byteUnit(findByteUnit(windows)),
      timeUnitNs(roundToUnit(totalNs / 1024)), gatherCost(costOf(windows.gatherCost, options)),
      reduceCost(costOf(windows.reduceCost, options)),
      laneShares{{findLaneShares(problem, {}), findLaneShares(problem, {.reductions = true})},
                 {findLaneShares(problem, {.gathers = true}),
                  findLaneShares(problem, {.gathers = true, .reductions = true})}} {
  addSegments(options.coarsen);
  addChoices();
  addGatherSums();
  addReductionSums();
  addKeptBytes();
  countWindows();
  addMoments();
  addWork(&FluidSegment::gathers, &Moment::gathers, &FluidSegment::start, gatherWork, gatherWork);
  addWork(&FluidSegment::reductions, &Moment::reductions, &FluidSegment::reduced, deadlineWork,
          readyWork);
  addMergedGathers();
  addMergedReductions();
  addSingleCollectives();
  addLanes();
  addReplicas();
  addMemory();
  addTurns();
  program.setCost(segments.back().after.time, 1);
}

FluidProgram::LaneCost FluidProgram::costOf(const CollectiveCost &cost,
                                            const FluidOptions &options) const {
  return {options.ignoreLatency ? 0 : cost.latencyNs / timeUnitNs,
          cost.nsPerByte * byteUnit / timeUnitNs};
}

LowerBound fsdp::schedule::fluidBound(const Problem &problem, const FluidOptions &options) {
  LowerBound bound = quickBound(problem);
  if (problem.operations.empty())
    return bound;
  const FluidProgram fluid(problem, options);
  std::optional<LinearProgram::Solution> solution = fluid.program.solve(options.iterationLimit);
  if (!solution)
    return bound;
  if (double makespanNs = solution->bound * fluid.timeUnitNs; makespanNs > bound.makespanNs) {
    bound.makespanNs = makespanNs;
    bound.kind = BoundKind::Fluid;
  }
  auto valueOf = [&](Column column) { return std::clamp(solution->valueOf(column), 0.0, 1.0); };
  bound.kept.assign(problem.uses.size(), 1); // a use without a window must be kept
  bound.chunked.resize(problem.uses.size());
  for (const FluidGather &gather : fluid.gathers) {
    bound.kept[gather.use] = valueOf(gather.kept);
    for (const FluidChunk &choice : gather.choices)
      bound.chunked[gather.use] += valueOf(choice.chosen);
  }
  return bound;
}
