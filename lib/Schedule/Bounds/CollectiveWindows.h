//===- CollectiveWindows.h - Earliest and latest positions ---------*- C++ -*-===//
//
// The window of a collective: the positions that the memory cap allows in any plan. A gather cannot
// be launched before an operation beside which its copy does not fit. A reduction must have ended
// before an operation beside which its input does not fit.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_COLLECTIVEWINDOWS_H
#define FSDP_LIB_SCHEDULE_COLLECTIVEWINDOWS_H

#include "fsdp/Schedule/Problem.h"

namespace fsdp::schedule {

/// A collective's cost divided by the cost of the dearest mesh. The dearest mesh is fictitious: it
/// has the largest latency and the largest time per byte of all meshes.
struct CostShares {
  double byte = 1, latency = 1;
};

/// A chunk from which a use may be gathered.
struct ChunkWindow {
  Chunk chunk;
  CollectiveCost cost; // the least of a gather from it and of one from all ranks
  CostShares shares;
};

/// A use that a plan may gather: the problem does not demand that an earlier copy is kept for it.
struct GatherWindow {
  uint32_t use = 0;
  int64_t sizeBytes = 0;
  uint32_t keptFrom = 0; // position after the group's previous use; 0 if there is none
  uint32_t gate = 0;     // first position at which a launch fits, at least keptFrom
  uint32_t first = 0;    // first operation of the use, which waits for the gather
  bool keepable = false; // the previous use's copy may be kept and fits until `first`
  /// Those that fit until `first`, or that are on the host by then.
  std::vector<ChunkWindow> chunks = {};
  /// `cost` is the least cost of a gather from all ranks by any transport; `leastCost` includes
  /// gathers from chunks.
  CollectiveCost cost, leastCost;
  CostShares shares, leastShares;
  /// The gather may be in one bucket with the gather of an earlier use.
  bool mergeable = false;
};

struct ReductionWindow : Reduction {
  uint32_t deadline = 0; // operation before which the reduction must have ended; at most `update`
  /// Input bytes minus the bytes of the reduced shard, which is live under every plan.
  int64_t excessBytes = 0;
  CollectiveCost cost = {};
  CostShares shares = {};
  std::optional<CollectiveCost> acrossCost = std::nullopt;
  double acrossByteShare = 0; // without replicas: 0
  /// The reduction may be in one bucket with a later reduction.
  bool mergeable = false;
};

struct CollectiveWindows {
  std::vector<GatherWindow> gathers;       // in order of use
  std::vector<ReductionWindow> reductions; // by reduction
  /// Costs of the dearest mesh, to which the shares of windows refer.
  CollectiveCost gatherCost, reduceCost;
  std::optional<CollectiveCost> acrossCost = std::nullopt; // nullopt: there are no replicas
  /// By operation: slack, the cap minus the bytes that are live under every plan. Negative slack:
  /// no plan exists.
  std::vector<int64_t> slackBytes;
};

CollectiveWindows findCollectiveWindows(const Problem &problem);

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_COLLECTIVEWINDOWS_H
