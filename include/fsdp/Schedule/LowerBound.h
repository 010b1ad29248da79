//===- LowerBound.h - What no plan can beat ------------------------*- C++ -*-===//
//
// Every bound holds for every plan that keeps the problem's memory cap. From cheap to strong:
//
//   path      first gather + all computation; an operation's end + its reduction + the rest
//   jackson   preemptive one-machine schedule of the gathers that no plan can avoid, with memory
//             gates as heads and remaining computation as tails (Jackson 1955; Carlier 1982)
//   fluid     linear program over the times of operations, cumulative work per lane, and the
//             fraction of each use that is kept and of each collective that is merged
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_LOWERBOUND_H
#define FSDP_SCHEDULE_LOWERBOUND_H

#include "fsdp/Schedule/Problem.h"

#include <string_view>

namespace fsdp::schedule {

enum class BoundKind : uint8_t { Path, Jackson, Fluid };

std::string_view getName(BoundKind kind);

struct LowerBound {
  double makespanNs = 0;
  BoundKind kind = BoundKind::Path; // the one that gave it
  /// From the linear program, where one was solved: how far each use is kept, how far each gather
  /// is merged with the one before it, each reduction with the one after it, in [0, 1]; by use and
  /// by reduction. Empty otherwise.
  std::vector<double> kept, mergedGathers, mergedReductions;
};

/// O(n log n).
LowerBound quickBound(const Problem &problem);

struct FluidOptions {
  /// Look at runs of operations without events between them as a whole: many times faster,
  /// slightly weaker.
  bool coarsen = true;
  /// Leave latencies out of the lanes' work: faster, weaker where collectives are small.
  bool ignoreLatency = false;
  /// The makespan alone, without what is kept and merged: many times faster on large programs.
  bool boundOnly = false;
  /// Iterations, simplex or interior point, after which the program is given up (the quick bound is
  /// returned). Interior points take 20 to 50.
  int64_t iterationLimit = 2'000'000;
};
LowerBound fluidBound(const Problem &problem, const FluidOptions &options);

} // namespace fsdp::schedule

#endif // FSDP_SCHEDULE_LOWERBOUND_H
