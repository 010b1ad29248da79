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
  /// In any stretch of time, one lane's work and (overlap - 1) times the other's fit in.
  double overlap;
  /// Some best plan takes no longer, in units of timeUnitNs.
  double horizon;
  LinearProgram &program;

  // FluidWork.cpp: work that must be done by a moment, or cannot be done before it.
  void addGatherWork();
  void addReductionWork();
  void addMergedGathers();
  void addMergedReductions();
  void addSingleCollectives();

  // FluidChains.cpp: how much can be merged.
  void addChains();

  // FluidLanes.cpp: time.
  void addLanes();

  // FluidMemory.cpp: bytes.
  void addMemory();
  void addBegunCopies();
  void addConflicts();

  // FluidReplicas.cpp: reductions over replicas.
  void addReplicas();

  // FluidExclusions.cpp: bytes and time.
  void addExclusions();

  // FluidTurns.cpp: likewise.
  void addTurns();

  // FluidLaunches.cpp: which collectives have not begun, or have ended, together with others.
  void addUnlaunched();
  void addBegun();
  void addEndedBuckets();

  // FluidStages.cpp: gathers that go on without a pause.
  void addStages();

private:
  const FluidSegment &segmentAt(uint32_t position) const;     // that begins there
  const FluidSegment &segmentBefore(uint32_t position) const; // that begins there or before
  void addBrokenChain(std::span<const Column> merged);
  void addGatherChains();
  void addBucketGates();
  void addReductionChains();
  void addLaneRows(const Moment &from, const Moment &to, double computeTime);
  void addStretch(const Moment &from, const Moment &to, double computeTime, double gatherShare,
                  double reduceShare);
};

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_FLUIDROWS_H
