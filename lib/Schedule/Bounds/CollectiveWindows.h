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

struct CostShares {
  double byte = 1, latency = 1;
};

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
  /// What a gather for it costs at least by any transport, from all ranks, and from chunks too; as
  /// shares of the dearest mesh's.
  CollectiveCost cost, leastCost;
  CostShares shares, leastShares;
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
  CollectiveCost cost;
  CostShares shares; // of the dearest mesh's
  std::optional<CollectiveCost> acrossCost = std::nullopt;
  double acrossByteShare = 0; // none over replicas: 0
  /// It may wait for a later reduction, to go with it in one bucket.
  bool mergeable = false;
};

struct CollectiveWindows {
  std::vector<GatherWindow> gathers;       // in order of use
  std::vector<ReductionWindow> reductions; // by reduction
  /// The dearest of all meshes, of which windows have shares.
  CollectiveCost gatherCost, reduceCost;
  std::optional<CollectiveCost> acrossCost = std::nullopt; // none: no update waits for replicas
  /// By operation: bytes between the cap and what is live under every plan. Negative where no plan
  /// exists.
  std::vector<int64_t> slackBytes;
};

/// O(n log n).
CollectiveWindows findCollectiveWindows(const Problem &problem);

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_COLLECTIVEWINDOWS_H
