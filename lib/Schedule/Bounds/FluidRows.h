//===- FluidRows.h - The rows of the fluid bound's linear program --*- C++ -*-===//
//
// Each function adds one family of rows. Above each definition stands why every plan satisfies
// them.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_FLUIDROWS_H
#define FSDP_LIB_SCHEDULE_FLUIDROWS_H

#include "FluidMoments.h"

#include <algorithm>
#include <span>

namespace fsdp::schedule {

/// Whether a chain of this many merged collectives has a row. Only some lengths have, to keep the
/// number of rows small.
inline bool isOneOf(std::span<const uint32_t> lengths, uint32_t length) {
  return std::find(lengths.begin(), lengths.end(), length) != lengths.end();
}

/// The data that rows are made of.
struct FluidRows {
  const Problem &problem;
  const CollectiveWindows &windows;
  const FluidChoices &choices;
  const std::vector<FluidSegment> &segments;
  LaneCosts costs;
  double timeUnitNs;
  LinearProgram &program;
  /// By whether gathers, and whether reductions, may run.
  std::vector<LaneShares> laneShares[2][2] = {
      {findLaneShares(problem, {}), findLaneShares(problem, {.reductions = true})},
      {findLaneShares(problem, {.gathers = true}),
       findLaneShares(problem, {.gathers = true, .reductions = true})}};

  // FluidWork.cpp: work that must be done by a moment, or cannot be done before it.
  void addGatherWork();
  void addReductionWork();
  void addMergedGathers();
  void addMergedReductions();
  void addSingleCollectives();

  // FluidLanes.cpp: time.
  void addLanes();

  // FluidMemory.cpp: bytes.
  void addMemory();

  // FluidReplicas.cpp: reductions over replicas.
  void addReplicas();

  // FluidTurns.cpp: bytes and time.
  void addTurns();

private:
  const FluidSegment &segmentAt(uint32_t position) const; // that begins there
  void addLaneRows(const Moment &from, const Moment &to, bool isComputing,
                   const Expression &computeTime);
};

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_FLUIDROWS_H
