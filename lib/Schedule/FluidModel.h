//===- FluidModel.h - The linear program behind the fluid bound ----*- C++ -*-===//
//
// Lanes work like pipes: the program knows, at the start and the end of each segment, the time and
// how many bytes and latencies each lane has behind it. Every plan is a point of the program: take
// its timeline, and split the time of each collective into its latency and its bytes.
//
// Two facts of plans are used throughout. What a lane has done by the end of operation i was
// launched at position i or before. What computation has waited for at position i was done when
// operation i started.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_FLUIDMODEL_H
#define FSDP_LIB_SCHEDULE_FLUIDMODEL_H

#include "LinearProgram.h"
#include "fsdp/Schedule/LowerBound.h"

namespace fsdp::schedule {

struct FluidModel {
  LinearProgram program;
  Column makespan;       // in units of timeUnitNs, as every time of the program
  double timeUnitNs = 1; // keeps the program's numbers near 1
  /// By use and by reduction; the default column where there is no choice.
  std::vector<Column> kept, mergedGathers, mergedReductions;
};

FluidModel buildFluidModel(const Problem &problem, const FluidOptions &options);

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_FLUIDMODEL_H
