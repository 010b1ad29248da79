//===- CriticalPath.h - The work that bounds a step --------------*- C++ -*-===//
//
// The chain of operations, collectives and waits for host copies that leads from the beginning of
// the step to its end without a gap: each begins when the one before it ends, because it needs
// that. Its predecessors are those of the simulator (IssueOrder.h, Simulate.h):
//   an operation follows the operation before it, or a collective for which computation waits;
//   a collective follows the moment at which computation reaches its launch, or the collective
//   before it on its lane; an all-reduce over replicas also follows its reduction;
//   on GPUs a collective does not begin before all that are launched earlier.
// The latest of these is on the path. Of several at one time, the first in this order is.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EXPLAIN_CRITICALPATH_H
#define FSDP_EXPLAIN_CRITICALPATH_H

#include "fsdp/Analysis/HostCopyWait.h"
#include "fsdp/Schedule/Simulate.h"

#include <string_view>

namespace fsdp::explain {

/// Fetch, Store: computation waits for a copy from the host, or to it.
enum class PathKind : uint8_t { Computation, Gather, Reduction, AllReduce, Fetch, Store };
inline constexpr unsigned kNumPathKinds = 6;
std::string_view getName(PathKind kind); // "computation", "all_gather"

struct PathItem {
  PathKind kind = PathKind::Computation;
  /// Of the operation, of the collective in the view (an all-reduce has that of its reduction), or
  /// of the view's host copy.
  uint32_t index = 0;
};

/// Why a collective begins when it does.
enum class PathCause : uint8_t {
  Issue,     // computation reaches its launch
  Lane,      // the lane ends `behind`
  Reduction, // of an all-reduce: its reduction ends
  Order,     // `behind` begins, which is launched before it on another lane
};

struct PathSegment : PathItem {
  schedule::Interval interval;
  double slowdownNs = 0; // part of the interval: by concurrent work
  PathCause cause = PathCause::Issue;
  PathItem behind = {};
};

/// The segments from 0 to the makespan, each beginning where the one before it ends; none is empty.
/// `timeline` must be that of `plan`; `waits` are ordered by position. Linear.
std::vector<PathSegment> findCriticalPath(const schedule::Problem &problem,
                                          const schedule::Plan &plan,
                                          const schedule::Timeline &timeline,
                                          std::span<const HostCopyWait> waits = {});

} // namespace fsdp::explain

#endif // FSDP_EXPLAIN_CRITICALPATH_H
