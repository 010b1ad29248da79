//===- Problem.h - The scheduling problem of one step ------------*- C++ -*-===//
//
// Operations run one after another on the compute stream, in a fixed order. Groups of parameters
// have to be gathered before the operations that use them, gradients reduced before the updates
// that wait for them; both happen on in-order lanes beside the computation. What may be chosen is
// what to gather again, from all ranks or from chunks that neighbours keep, what to send together,
// by which transport, and when to launch (Plan.h).
//
// Standard library only. Times are nanoseconds, sizes bytes. Position i means "before operation i":
// after everything of operation i - 1, before everything of operation i.
//
// Memory. While operation i runs, these bytes are live: its own `liveBytes` (state, activations,
// temporaries, gradients that are still being written), every gathered copy from the position of
// its launch to the end of its last use, every reduction's input from `ready` to the position of
// its wait, and every reduced shard from the position of its reduction's launch to its update. At
// position i itself only `carriedBytes` of the computation are live, so that a collective on which
// computation waits can have the memory that the next operation will need. At one position things
// happen in this order: reshards, waits of reductions that were launched before, then each
// reduction's launch and, if it stands here, its wait; then launches of gathers, then waits for
// gathers.
//
// Chunks. The last operation of a use that leaves a chunk copies it, so it takes longer by the
// copy. The chunk is live from that operation to the first operation of the use that is gathered
// from it, both included.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_PROBLEM_H
#define FSDP_SCHEDULE_PROBLEM_H

#include "fsdp/Schedule/CollectiveCost.h"
#include "fsdp/Schedule/Contention.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace fsdp::schedule {

struct Operation {
  double durationNs = 0; // on a device that does nothing else
  int64_t liveBytes = 0; // while it runs, without gathered copies and what reductions hold
  /// Of these, what was live before it and stays live: at most the `liveBytes` of it and of the
  /// operation before it.
  int64_t carriedBytes = 0;
};

/// Operations first, ..., last read the parameters of a group; without interruption they stay
/// gathered. A group has one use per forward, backward or recomputation that it serves.
struct Use {
  uint32_t group = 0;
  uint32_t first = 0, last = 0;
};

/// Whether a group stays gathered until its next use.
enum class KeepRule : uint8_t { Free, Never, Always };

/// This rank's part of the gathered parameters where a few neighbours keep them together.
struct Chunk {
  int64_t ranks = 0; // that keep them together, for people
  int64_t bytes = 0;
  double copyNs = 0;         // from the gathered copy, on the compute stream
  CollectiveCost gatherCost; // among the neighbours; per byte of the full parameters
};

/// What the collectives of groups that meet the same ranks cost. Those of several meshes are never
/// one bucket.
struct Mesh {
  CollectiveCost gatherCost, reduceCost; // by kernels
  /// Where groups have replicas: a reduction's shard goes on over these, on a lane of its own that
  /// begins with it when the reduction has ended; `update` waits for it. Per byte of the output.
  std::optional<CollectiveCost> acrossCost = std::nullopt;
  /// Where gathers from all ranks may go by the devices' copy engines instead, or all of them must.
  std::optional<CollectiveCost> copyEngineCost = std::nullopt;
  bool copyEngineOnly = false;

  /// By whichever transport: no gather from all ranks has less of either.
  CollectiveCost leastGatherCost() const;
};

struct Group {
  std::string name;          // for people
  int64_t gatheredBytes = 0; // of the full parameters, on each rank
  KeepRule keep = KeepRule::Free;
  /// Where uses behind the first may be gathered from chunks that the use before them leaves.
  std::optional<Chunk> chunk = std::nullopt;
  uint32_t mesh = 0;
};

/// The gradients of a group, from when all are there until its shards are updated.
struct Reduction {
  uint32_t group = 0;
  uint32_t ready = 0;      // position from which the input is complete
  uint32_t update = 0;     // operation that needs the result; update >= ready
  int64_t inputBytes = 0;  // of the full gradients, live from `ready` until the wait
  int64_t outputBytes = 0; // of the reduced shard, at most inputBytes
};

struct Problem {
  std::vector<Operation> operations;
  std::vector<Group> groups;
  std::vector<Use> uses;             // by (first, last)
  std::vector<Reduction> reductions; // by (ready, update)
  std::vector<Mesh> meshes = std::vector<Mesh>(1); // at least one
  /// True: gathers and reductions share one in-order lane.
  bool oneLane = false;
  /// True: one launch of several collectives takes as long as one collective of all their bytes.
  /// False: it takes as long as these collectives do one after another.
  bool coalesces = true;
  /// The host issues work long before it runs, as for every GPU. Only what eager FSDP2 does depends
  /// on it (Policies.h).
  bool hostRunsAhead = false;
  Contention contention;
  /// Peak bytes that no plan may exceed; none: no limit.
  std::optional<int64_t> memoryCapBytes;

  /// What is wrong with the problem, for people; nothing if it is well formed: indices in range,
  /// order as stated, uses of one group apart from each other, factors in their ranges, sizes not
  /// negative.
  std::optional<std::string> check() const;

  /// By position: when it is reached if computation never waits.
  std::vector<double> reachedNs() const;
  const Mesh &meshOf(const Group &group) const { return meshes[group.mesh]; }
  const Mesh &meshOfUse(uint32_t use) const { return meshOf(groups[uses[use].group]); }
  const Mesh &meshOfReduction(uint32_t reduction) const {
    return meshOf(groups[reductions[reduction].group]);
  }
  bool hasReplicas() const;
  /// Whether a gather for the use, or for its bucket, goes by copy engines if `isWanted`.
  bool goesByCopyEngine(uint32_t use, bool isChunked, bool isWanted) const {
    const Mesh &mesh = meshOfUse(use);
    return mesh.copyEngineCost && !isChunked && (isWanted || mesh.copyEngineOnly);
  }
  const CollectiveCost &gatherCostOf(uint32_t use, bool isChunked, bool byCopyEngine) const {
    if (goesByCopyEngine(use, isChunked, byCopyEngine))
      return *meshOfUse(use).copyEngineCost;
    return isChunked ? groups[uses[use].group].chunk->gatherCost : meshOfUse(use).gatherCost;
  }
  /// Whether a plan may choose.
  bool hasTransports() const;
  /// Of the gather of these uses in one launch, of which those in `chunked`, by use, are gathered
  /// from chunks (Plan.h). Empty: none is.
  CollectiveDuration ofGather(std::span<const uint32_t> bucket, std::span<const uint8_t> chunked,
                              bool byCopyEngine) const;
  /// Of the reduction of these in one launch, and of what follows over replicas; none: 0.
  CollectiveDuration ofReduction(std::span<const uint32_t> bucket) const;
  CollectiveDuration ofAcross(std::span<const uint32_t> bucket) const;

  /// The use of the same group before `use` (after it); none for the first (last).
  std::vector<int32_t> previousUses() const;
  std::vector<int32_t> nextUses() const;

  /// Bytes that are live while each operation runs under every plan: its own, the copies that it
  /// uses or that must be kept, and the reduced shards that wait for their update.
  std::vector<int64_t> unavoidableBytes() const;

  /// The least peak of any plan, and the operation at which it occurs: nothing is launched before
  /// it is needed and nothing kept that need not be. O(n), rarely O(n log bytes).
  struct MinimumPeak {
    int64_t bytes = 0;
    uint32_t operation = 0;
  };
  MinimumPeak minimumPeak() const;
};

} // namespace fsdp::schedule

#endif // FSDP_SCHEDULE_PROBLEM_H
