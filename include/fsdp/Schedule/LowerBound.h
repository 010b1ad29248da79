//===- LowerBound.h - Lower bounds on the makespan -----------------*- C++ -*-===//
//
// Each lower bound holds for every plan that keeps the problem's memory cap. From cheap to strong:
//
//   path      the longest path through operations and unavoidable collectives, and all computation
//             with its slowdown beside unavoidable collectives
//   lanes     the unavoidable work of the lanes
//   fluid     LP relaxation: a linear program over the times of operations, the cumulative work of
//             each lane, the fraction of each use that is kept or gathered from chunks, and the
//             fraction of each collective that is merged with a neighbor
//
// A collective is unavoidable if every plan has it.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_LOWERBOUND_H
#define FSDP_SCHEDULE_LOWERBOUND_H

#include "fsdp/Schedule/Problem.h"

#include <string_view>

namespace fsdp::schedule {

enum class BoundKind : uint8_t { Path, Lanes, Fluid };

std::string_view getName(BoundKind kind);

struct LowerBound {
  double makespanNs = 0;
  BoundKind kind = BoundKind::Path; // of the bounds, the largest
  /// By use: the fractions that the solution of the linear program keeps and gathers from any
  /// chunks, in [0, 1]. Empty if none was solved.
  std::vector<double> kept, chunked;
};

/// O(n log n).
LowerBound quickBound(const Problem &problem);

struct FluidOptions {
  /// Treat a run of operations without events as one operation: many times faster, slightly weaker.
  bool coarsen = true;
  /// Leave latencies out of the lanes' work: faster, weaker if collectives are small.
  bool ignoreLatency = false;
  /// Limit on the iterations of the simplex method. Beyond it the quick bound is returned.
  int iterationLimit = 2'000'000;
};
LowerBound fluidBound(const Problem &problem, const FluidOptions &options);

} // namespace fsdp::schedule

#endif // FSDP_SCHEDULE_LOWERBOUND_H
