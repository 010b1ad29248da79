//===- PathRuns.h - A critical path for display ------------------*- C++ -*-===//

#ifndef FSDP_EXPLAIN_PATHRUNS_H
#define FSDP_EXPLAIN_PATHRUNS_H

#include "fsdp/Explain/Print.h"

namespace fsdp::explain {

/// "forward of layers.3 (mm.default)", "all_reduce layers.0", "fetch layers.0".
std::string describe(const PathItem &item, const ScheduleView &view);

/// Why the segment begins when it does; empty for computation, which follows the segment before.
std::string describeCause(const PathSegment &segment, const ExplainedPlan &plan);

/// Consecutive operations of one block of modules, or a single segment of another kind.
struct PathRun {
  PathSegment first;
  schedule::Interval interval;
  double slowdownNs = 0;
  std::string name; // "forward of layers.3", "all_gather layers.0"
};
std::vector<PathRun> getPathRuns(const ScheduleView &view);

/// The path's time by kind; the sum of `ns` is the step's.
struct PathShare {
  double ns = 0, slowdownNs = 0;
};
using PathShares = std::array<PathShare, kNumPathKinds>;
PathShares getPathShares(const ScheduleView &view);

/// Prints what bounds the step: the sums by kind, and of a long path the longest segments that are
/// not computation.
void printCriticalPath(const ExplainedPlan &plan, llvm::raw_ostream &os);

} // namespace fsdp::explain

#endif // FSDP_EXPLAIN_PATHRUNS_H
