//===- FluidMoments.h - Time and lanes at the ends of segments -----*- C++ -*-===//

#ifndef FSDP_LIB_SCHEDULE_FLUIDMOMENTS_H
#define FSDP_LIB_SCHEDULE_FLUIDMOMENTS_H

#include "FluidChoices.h"
#include "LaneShares.h"

namespace fsdp::schedule {

/// The program's columns for one moment. At the start of the step all of them are 0.
struct Moment {
  Column time;
  Column gatheredBytes, gatherLatencies; // done so far by the lane of gathers
  Column reducedBytes, reduceLatencies;  // done so far by the lane of reductions
};

/// A segment, its moments, and the windows that are open in it.
struct FluidSegment {
  Segment segment;
  Moment before; // end of the operation before the segment
  /// No gather is launched before `launch`. The due reductions have ended at `reduced`. Both are
  /// one moment of their own if gathers wait for reductions, else `before` and `start`.
  Moment launch, reduced;
  Moment start;            // start of its first operation; equals `before` if no wait is possible
  Moment after;            // end of its last operation
  uint32_t dueGathers = 0; // gathers [0, dueGathers) have ended at `start`
  uint32_t launchableGathers = 0; // later gathers cannot be launched by `after`
  uint32_t launchedGathers = 0;   // later gathers cannot be launched before `launch`
  uint32_t readyReductions = 0;   // reductions [0, readyReductions) can be launched
  uint32_t dueReductions = 0;     // the first so many by deadline have ended at `start`
  bool gathersBecomeDue = false, reductionsBecomeDue = false, reductionsGetReady = false;
  bool replicasBecomeDue = false; // at `start`, an update waits for an all-reduce over replicas
};

/// Latencies and times per byte of collectives, in the program's units.
struct LaneCosts {
  double gatherLatency = 0, gatherPerByte = 0;
  double reduceLatency = 0, reducePerByte = 0;
  /// The weighted work of the lanes of gathers and reductions between two moments.
  Expression workOf(const LaneShares &shares, const Moment &from, const Moment &to) const;
};

/// Columns for all moments. Times are at most `horizon`.
std::vector<FluidSegment> addMoments(const CollectiveWindows &windows,
                                     const std::vector<Segment> &segments,
                                     const FluidChoices &choices, const LaneCosts &costs,
                                     double horizon, LinearProgram &program);

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_FLUIDMOMENTS_H
