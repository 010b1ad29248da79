//===- CollectiveWindows.h - When each collective can happen -------*- C++ -*-===//
//
// The positions that the memory cap allows for each collective in every plan: a gather cannot be
// launched before an operation beside which its copy does not fit, and a reduction must have ended
// before an operation beside which its input does not fit.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_COLLECTIVEWINDOWS_H
#define FSDP_LIB_SCHEDULE_COLLECTIVEWINDOWS_H

#include "fsdp/Schedule/Problem.h"

namespace fsdp::schedule {

/// A use that is not always served by an earlier copy, so that a plan may gather for it.
struct GatherWindow {
  uint32_t use = 0;
  int64_t sizeBytes = 0;
  uint32_t keptFrom = 0; // position after the group's previous use; 0 if there is none
  uint32_t gate = 0;     // first position at which a launch fits, at least keptFrom
  uint32_t first = 0;    // operation that waits for it
  bool keepable = false; // the previous use's copy may stay and fits until `first`
  /// Chunks of the previous use's copy may stay, and fit until `first`.
  std::optional<Chunk> chunk = std::nullopt;
  /// The least that a gather for it costs, and its shares of what one from all ranks costs.
  CollectiveCost leastCost;
  double leastByteShare = 1, leastLatencyShare = 1;
  /// Its copy may come with that of an earlier use in one bucket.
  bool mergeable = false;
};

struct ReductionWindow {
  uint32_t ready = 0;
  uint32_t deadline = 0; // operation before which it must have ended, at most its update
  uint32_t update = 0;
  int64_t inputBytes = 0, outputBytes = 0;
  /// By how much the input exceeds the reduced shard, which is live under every plan.
  int64_t excessBytes = 0;
  /// It may wait for a later reduction, to go with it in one bucket.
  bool mergeable = false;
};

struct CollectiveWindows {
  std::vector<GatherWindow> gathers;       // in order of use
  std::vector<ReductionWindow> reductions; // by reduction
  bool hasReplicas = false;                // for which updates wait
  /// By operation: bytes between the cap and what is live under every plan. Negative where no plan
  /// exists.
  std::vector<int64_t> slackBytes;
};

/// O(n log n).
CollectiveWindows findCollectiveWindows(const Problem &problem);

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_COLLECTIVEWINDOWS_H
