//===- LowerBound.h - What no plan can beat ------------------------*- C++ -*-===//
//
// Every bound holds for every plan that keeps the problem's memory cap. From cheap to strong:
//
//   path      first gather + all computation; an operation's end + its reduction + the rest;
//             computation beside the collectives that no plan can avoid, which slow it down
//   lanes     the work of the lanes that no plan can avoid
//   fluid     linear program over the times of operations, cumulative work per lane, and the
//             fraction of each use that is kept or gathered from chunks and of each collective that
//             is merged
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
  BoundKind kind = BoundKind::Path; // the one that gave it
  /// From the linear program, where one was solved: how far each use is kept, or gathered from
  /// chunks, how far each gather is merged with the one before it, each reduction with the one
  /// after it, in [0, 1]; by use and by reduction. Empty otherwise.
  std::vector<double> kept, chunked, mergedGathers, mergedReductions;
};

/// O(n log n).
LowerBound quickBound(const Problem &problem);

struct FluidOptions {
  /// Look at runs of operations without events between them as a whole: many times faster,
  /// slightly weaker.
  bool coarsen = true;
  /// Leave latencies out of the lanes' work: faster, weaker where collectives are small.
  bool ignoreLatency = false;
  /// Iterations of the simplex method, after which the program is given up: the quick bound is
  /// returned.
  int64_t iterationLimit = 2'000'000;
};
LowerBound fluidBound(const Problem &problem, const FluidOptions &options);

} // namespace fsdp::schedule

#endif // FSDP_SCHEDULE_LOWERBOUND_H
