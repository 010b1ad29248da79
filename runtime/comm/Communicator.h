//===- Communicator.h - Collectives between the ranks of a run ---*- C++ -*-===//
//
// One interface, several backends: `local` (one thread per rank in one process), `shm` (processes
// on one host), `gloo` (c10d, across hosts). One conformance suite (test/runtime/comm) holds for
// all.
//
// A communicator has lanes, numbered from 0: independent orders of collectives, so that gathers and
// reductions may be in flight at the same time. Within a lane all ranks issue the same collectives
// in the same order. Each lane is used by one thread at a time. Collectives block the calling
// thread, which is a stream's worker, until the output is complete and the input may be
// overwritten.
//
// Ranks form a mesh of replicas x shards, in row-major order: the ranks of one replica have
// consecutive numbers. On the gather and reduce lanes the ranks of one replica meet, on the
// replicate lane those that hold the same shard, on the chunk lane chunkRanks() consecutive ones of
// a replica, on the control lane all (ranksOf). A failure in any lane is one of all ranks.
//
// A device's communicator (`nccl`, and `fake` on a device) is asynchronous on all lanes but
// control: a collective is enqueued on the stream that useStream() gave to its lane, on device
// memory, and all that is said of its completion holds in the order of that stream. The control
// lane takes memory of the host and blocks, as everywhere.
//
// Failures: a dead or stalled peer, or an abort, makes every pending and later call on every rank
// return an error within the deadline of CommunicatorOptions. Nothing throws, nothing calls
// abort().
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_COMMUNICATOR_H
#define FSDP_RUNTIME_COMMUNICATOR_H

#include "Status.h"
#include "device/Device.h"
#include "fsdp/Plan/Abi.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace fsdp::rt {

enum class ReduceOp { Sum, Average, Max };

/// The lanes of a training run.
enum Lane : unsigned {
  kGatherLane = 0,
  kReduceLane = 1,
  kReplicateLane = 2, // of meshes with more than one replica
  kChunkLane = 3,     // of gathers between some neighbours on the shard axis
  kControlLane = 4,
  kNumLanes = 5
};

/// Those on which a step's collectives run.
inline constexpr Lane kStepLanes[] = {kGatherLane, kReduceLane, kReplicateLane, kChunkLane};

/// The ranks that meet on a lane, seen by one of them: first, first + stride, ...
struct LaneRanks {
  unsigned first = 0, stride = 1, size = 1;
  unsigned index = 0; // of the rank itself: it is at(index)

  unsigned at(unsigned i) const { return first + i * stride; }
};

class Communicator {
public:
  virtual ~Communicator() = default;

  virtual unsigned rank() const = 0;
  virtual unsigned size() const = 0;
  /// Replicas of every shard; divides size().
  virtual unsigned replicas() const { return 1; }
  /// Ranks that meet on the chunk lane; divides size() / replicas(). 1: nobody uses the lane.
  virtual unsigned chunkRanks() const { return 1; }

  /// With whom this rank meets on a lane.
  LaneRanks ranksOf(unsigned lane) const;

  /// The rank's arena: `bytes` of zeroed memory, 64-byte aligned, of the same size on all ranks,
  /// owned by the communicator and valid until it is destroyed. Called once, by all ranks.
  /// Collectives whose input lies in the arena read it in place from the peers where the backend
  /// can (shm, local); all ranks must then pass inputs at the same arena offset.
  virtual Result<std::byte *> makeArena(size_t bytes) = 0;

  // In what follows, ranks and their number are those of the lane: rank i is ranksOf(lane).at(i).

  /// output[r * bytes, (r + 1) * bytes) = input of rank r. `input` may be output + rank * bytes.
  virtual Status allGather(unsigned lane, const void *input, void *output, size_t bytes) = 0;

  /// `input` holds a block of `count` elements per rank; `output` receives the reduction of the own
  /// block over all ranks. Sums run in rank order, each addition rounded to the dtype (`gloo`: in
  /// an order of its own, fixed for a given size, at more than 2 ranks); Average divides the sum by
  /// the number of ranks.
  virtual Status reduceScatter(unsigned lane, const void *input, void *output, size_t count,
                               fsdp_dtype dtype, ReduceOp op) = 0;

  /// As reduceScatter(), of the sum of the ranks' inputs times `factor`, each product rounded to
  /// `dtype`, a floating-point type. Overwrites `input` where the backend has no such operation.
  virtual Status reduceScatterScaled(unsigned lane, void *input, void *output, size_t count,
                                     fsdp_dtype dtype, double factor);

  /// data[i] /= divisor, rounded to `dtype`, a floating-point type; in the lane's order, and
  /// without its other ranks.
  virtual Status divide(unsigned lane, void *data, size_t count, fsdp_dtype dtype, double divisor);

  /// data = reduction of `data` over all ranks; the same bits on all ranks.
  virtual Status allReduce(unsigned lane, void *data, size_t count, fsdp_dtype dtype,
                           ReduceOp op) = 0;

  /// data = data of rank `root`.
  virtual Status broadcast(unsigned lane, void *data, size_t bytes, unsigned root) = 0;

  virtual Status barrier(unsigned lane) = 0;

  /// Tells the communicator that the collectives of `lane` belong on `stream`, which outlives their
  /// use. True: they are asynchronous there from now on. False: this communicator blocks.
  virtual bool useStream(unsigned lane, Stream &stream) { return false; }

  /// The collectives of an asynchronous lane between these two are one launch. No collective runs
  /// before the end, which is called after an error too.
  virtual Status beginGroup(unsigned lane) { return {}; }
  virtual Status endGroup(unsigned lane) { return {}; }

  /// What is issued on asynchronous lanes from here to endCapture() becomes part of a graph and
  /// does not run. An error says why that cannot be. `kept`: the graph will be launched, and
  /// destroyed before the communicator; else it is as if nothing had been issued.
  virtual Status beginCapture() { return Status::error("its collectives block the host"); }
  virtual void endCapture(bool kept) {}

  /// An error once the communicator has failed or a peer is known to be gone, where that can be
  /// told without taking part in a collective. Never blocks for a peer; callable from any thread.
  virtual Status health() { return {}; }

  /// Makes pending and later calls fail, here and on the peers, with `reason` in their message.
  /// Their error names the rank that calls this, or if `reason` is the abort of a rank, that one.
  /// Callable from any thread.
  virtual void abort(const Status &reason) = 0;

protected:
  /// What later calls fail with: "aborted by rank <this rank>: <reason>", or the abort of another
  /// rank as it is.
  Status abortStatus(const Status &reason) const;
};

struct CommunicatorOptions {
  /// Of every shard; divides the number of ranks.
  unsigned replicas = 1;
  /// Ranks that meet on the chunk lane; divides the ranks of a replica. 1: the lane is not used.
  unsigned chunkRanks = 1;
  /// A collective that takes longer than this has failed.
  std::chrono::milliseconds deadline{std::chrono::seconds(60)};
  /// A rank that has not come to the rendezvous after this time is missing. Bounds the whole of
  /// connect(), within kRendezvousGrace.
  std::chrono::milliseconds connectTimeout{std::chrono::seconds(60)};
};

/// Communicators of `size` ranks of this process, by rank; each is for one rank's threads. Empty if
/// there is no memory.
std::vector<std::unique_ptr<Communicator>> makeLocalCommunicators(unsigned size,
                                                                  CommunicatorOptions options);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_COMMUNICATOR_H
