//===- FluidRows.h - The rows of the fluid bound's linear program --*- C++ -*-===//
//
// Each function adds one family of rows. The comment at its definition says why every plan
// satisfies these rows.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_FLUIDROWS_H
#define FSDP_LIB_SCHEDULE_FLUIDROWS_H

#include "FluidColumns.h"

#include <algorithm>
#include <span>

namespace fsdp::schedule {

/// Whether a chain of this many merged collectives has a row. Only some lengths have rows, so that
/// the program stays small.
inline bool isOneOf(std::span<const uint32_t> lengths, uint32_t length) {
  return std::find(lengths.begin(), lengths.end(), length) != lengths.end();
}

/// The input from which rows are built.
struct FluidRows {
  const Problem &problem;
  const CollectiveWindows &windows;
  const FluidChoices &choices;
  const std::vector<FluidSegment> &segments;
  LaneCosts costs;
  double timeUnitNs;
  LinearProgram &program;
  /// Indices: whether gathers may run, whether reductions may run.
  std::vector<LaneShares> laneShares[2][2] = {
      {findLaneShares(problem, {}), findLaneShares(problem, {.reductions = true})},
      {findLaneShares(problem, {.gathers = true}),
       findLaneShares(problem, {.gathers = true, .reductions = true})}};

  // FluidWork.cpp: the most and the least work that lanes can have done by a moment.
  void addGatherWork();
  void addReductionWork();
  void addMergedGathers();
  void addMergedReductions();
  void addSingleCollectives();

  void addLanes(); // time

  // FluidMemory.cpp: bytes.
  void addMemory();

  // FluidReplicas.cpp: all-reduces over replicas.
  void addReplicas();

  // FluidTurns.cpp: disjunctions of bytes and time.
  void addTurns();

private:
  const FluidSegment &segmentAt(uint32_t position) const; // the segment that begins there
  void addLaneRows(const Moment &from, const Moment &to, bool isComputing,
                   const Expression &computeTime);
};

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_FLUIDROWS_H
