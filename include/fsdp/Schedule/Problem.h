//===- Problem.h - The scheduling problem of one step ------------*- C++ -*-===//
//
// Operations run one after another on the compute stream, in a fixed order. Each group of
// parameters is gathered before the operations that use it. Its gradients are reduced before the
// update that needs them. These collectives run beside the computation on lanes: in-order queues. A
// plan (Plan.h) chooses which uses are gathered again, whether a gather is from all ranks or from
// chunks that neighbours keep, the buckets, their transports, and the launches.
//
// Standard library only. Times are in nanoseconds, sizes in bytes. Position i is the moment after
// operation i - 1 and before operation i.
//
// Memory. While operation i runs, these bytes are live:
//   its `liveBytes`: state, activations, temporaries, gradients that are still being written;
//   each gathered copy, from the position of its launch to the end of its last use;
//   the input of each reduction, from `ready` to the position of its wait;
//   each reduced shard, from the position of its reduction's launch to its update.
// At position i the computation has only its `carriedBytes` live: a collective for which
// computation waits can use the memory that the next operation will need. The order at one position
// is: reshards; waits for reductions that were launched at earlier positions; each reduction's
// launch and, if it is at the same position, its wait; launches of gathers; waits for gathers.
//
// Chunks. The last operation of a use that leaves a chunk also makes it, so this operation takes
// longer by the copy. The chunk is live from that operation to the first operation of the use that
// is gathered from it, both included. A chunk that waits on the host is live until it is stored
// (Use::storedBy) instead, and gathered at a later position.
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
  int64_t liveBytes = 0; // while it runs, without gathered copies and buffers of reductions
  /// The part of `liveBytes` that is live before the operation and stays live: at most its
  /// `liveBytes` and those of the operation before it.
  int64_t carriedBytes = 0;
  bool operator==(const Operation &) const = default;
};

/// Operations first, ..., last read the parameters of a group, which stay gathered all the while. A
/// group has one use per forward, backward or recomputation that it serves.
struct Use {
  uint32_t group = 0;
  uint32_t first = 0, last = 0;
  /// The operation by whose end a chunk that this use leaves has been copied to the host; at least
  /// `last`, or 0, which means `last`. The copy takes no time of the computation.
  uint32_t storedBy = 0;
  bool operator==(const Use &) const = default;
};

/// Whether a group stays gathered until its next use.
enum class KeepRule : uint8_t { Free, Never, Always };

/// This rank's part of the gathered parameters, where a few neighbours keep one copy among them.
struct Chunk {
  int64_t ranks = 0; // number of these neighbours, for people
  int64_t bytes = 0;
  double copyNs = 0; // to make it from the gathered copy, on the compute stream
  /// Among the neighbours, by bytes of the full parameters. Includes the copy from the host.
  CollectiveCost gatherCost;
  bool isOnHost = false; // it waits for its gather on the host
  bool operator==(const Chunk &) const = default;
};

/// The costs of collectives over one set of ranks. A bucket never has members of several meshes.
struct Mesh {
  CollectiveCost gatherCost, reduceCost; // by kernels
  /// Set if groups have replicas. The shard of an ended reduction is all-reduced over the replicas,
  /// on a third lane, and `update` waits for this all-reduce. By bytes of the shard.
  std::optional<CollectiveCost> acrossCost = std::nullopt;
  /// Set if the devices' copy engines can do gathers from all ranks.
  std::optional<CollectiveCost> copyEngineCost = std::nullopt;
  bool copyEngineOnly = false; // all gathers from all ranks go by copy engines

  /// The lower latency and the lower time per byte of the transports, each by itself: a lower bound
  /// for every gather from all ranks.
  CollectiveCost leastGatherCost() const;
  bool operator==(const Mesh &) const = default;
};

struct Group {
  std::string name;          // for people
  int64_t gatheredBytes = 0; // of the full parameters, on each rank
  KeepRule keep = KeepRule::Free;
  /// The chunks that a use may leave for the use after it, which is then gathered from them. Empty:
  /// none. Chunks that are gathered faster come first.
  std::vector<Chunk> chunks = {};
  uint32_t mesh = 0;
  bool operator==(const Group &) const = default;
};

/// The reduction of a group's gradients.
struct Reduction {
  uint32_t group = 0;
  uint32_t ready = 0;      // position from which all gradients of the group are complete
  uint32_t update = 0;     // operation that needs the result; update >= ready
  int64_t inputBytes = 0;  // of the full gradients, live from `ready` until the wait
  int64_t outputBytes = 0; // of the reduced shard, at most inputBytes
  bool operator==(const Reduction &) const = default;
};

struct Problem {
  std::vector<Operation> operations;
  std::vector<Group> groups;
  std::vector<Use> uses;                           // ordered by (first, last)
  std::vector<Reduction> reductions;               // ordered by (ready, update)
  std::vector<Mesh> meshes = std::vector<Mesh>(1); // at least one
  /// True: gathers and reductions share one in-order lane.
  bool oneLane = false;
  /// True: one launch of several collectives takes as long as one collective of all their bytes.
  /// False: it takes as long as these collectives do one after another.
  bool coalesces = true;
  /// True: the host issues work long before it runs, which FSDP2's own order depends on
  /// (Policies.h), and NCCL starts collectives of all lanes in the order of their launch
  /// (NCCL_LAUNCH_ORDER_IMPLICIT, docs/cuda.md).
  bool onGpus = false;
  Contention contention;
  /// Peak bytes that no plan may exceed; nullopt: no limit.
  std::optional<int64_t> memoryCapBytes;

  /// An error message for people; nullopt if the problem is well formed: indices are in range,
  /// vectors are ordered as stated, uses of one group do not overlap, factors are in their ranges,
  /// no size is negative.
  std::optional<std::string> check() const;
  bool operator==(const Problem &) const = default;

  /// By position: the time at which computation reaches it if it never waits.
  std::vector<double> reachedNs() const;
  /// By position: whether a use begins or has ended, gradients are ready, or an update begins.
  std::vector<uint8_t> events() const;
  const Group &groupOfUse(uint32_t use) const { return groups[uses[use].group]; }
  /// The chunk of this number (Plan::chunked), counted from 1, of the use's group.
  const Chunk &chunkOf(uint32_t use, uint8_t number) const {
    return groupOfUse(use).chunks[number - 1];
  }
  /// The first position at which the use after `previous` in its group may be gathered: from the
  /// chunk of this number, or from all ranks if it is 0.
  uint32_t releasedAt(uint32_t previous, uint8_t number) const {
    const Use &use = uses[previous];
    const bool isStored = number > 0 && chunkOf(previous, number).isOnHost;
    return (isStored && use.storedBy > use.last ? use.storedBy : use.last) + 1;
  }
  const Group &groupOfReduction(uint32_t index) const { return groups[reductions[index].group]; }
  const Mesh &meshOf(const Group &group) const { return meshes[group.mesh]; }
  const Mesh &meshOfUse(uint32_t use) const { return meshOf(groupOfUse(use)); }
  const Mesh &meshOfReduction(uint32_t index) const { return meshOf(groupOfReduction(index)); }
  bool hasReplicas() const;
  /// Whether a gather for the use, or for its bucket, goes by copy engines, if `isWanted` says that
  /// the plan asks for them.
  bool goesByCopyEngine(uint32_t use, bool isChunked, bool isWanted) const {
    const Mesh &mesh = meshOfUse(use);
    return mesh.copyEngineCost && !isChunked && (isWanted || mesh.copyEngineOnly);
  }
  const CollectiveCost &gatherCostOf(uint32_t use, uint8_t chunked, bool byCopyEngine) const {
    if (goesByCopyEngine(use, chunked > 0, byCopyEngine))
      return *meshOfUse(use).copyEngineCost;
    return chunked > 0 ? chunkOf(use, chunked).gatherCost : meshOfUse(use).gatherCost;
  }
  /// Whether a plan may choose between transports.
  bool hasTransports() const;
  /// The duration of one launch that gathers these uses. `chunked` is that of a plan (Plan.h).
  CollectiveDuration ofGather(std::span<const uint32_t> bucket, std::span<const uint8_t> chunked,
                              bool byCopyEngine) const;
  /// The duration of one launch of these reductions, and of the all-reduce over replicas that
  /// follows it; 0 without replicas.
  CollectiveDuration ofReduction(std::span<const uint32_t> bucket) const;
  CollectiveDuration ofAcross(std::span<const uint32_t> bucket) const;

  /// By use: the index of the group's previous (next) use; -1 for the first (last).
  std::vector<int32_t> previousUses() const;
  std::vector<int32_t> nextUses() const;

  /// By operation: a lower bound on the live bytes of every plan. These are the operation's own
  /// bytes, the copies that it uses or that must be kept, and the reduced shards that wait for
  /// their update.
  std::vector<int64_t> unavoidableBytes() const;

  /// The least peak of any plan, and the operation at which it occurs. A plan with this peak
  /// launches each gather at its use and keeps only the copies that must be kept. O(n), rarely
  /// O(n log bytes).
  struct MinimumPeak {
    int64_t bytes = 0;
    uint32_t operation = 0;
  };
  MinimumPeak minimumPeak() const;
};

} // namespace fsdp::schedule

#endif // FSDP_SCHEDULE_PROBLEM_H
