//===- MemoryCommunicator.h - Collectives through common memory --*- C++ -*-===//
//
// The common base of `local` and `shm`: every rank sees the arenas and the staging space of all
// ranks. A rank publishes its input, waits until the peers have published theirs, and reads them in
// place; a reduction is one pass over the inputs of all ranks. An input in the arena is read there,
// and the collective ends when all peers have read it. Other inputs are copied to staging space in
// portions; its two halves alternate, so that writers need not wait for readers.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_COMM_MEMORYCOMMUNICATOR_H
#define FSDP_RUNTIME_COMM_MEMORYCOMMUNICATOR_H

#include "comm/SharedRegion.h"

#include <vector>

namespace fsdp::rt {

class MemoryCommunicator : public Communicator {
public:
  ~MemoryCommunicator() override = default;

  Result<std::byte *> makeArena(size_t bytes) final;
  Status allGather(unsigned lane, const void *input, void *output, size_t bytes) final;
  Status reduceScatter(unsigned lane, const void *input, void *output, size_t count,
                       fsdp_dtype dtype, ReduceOp op) final;
  Status allReduce(unsigned lane, void *data, size_t count, fsdp_dtype dtype, ReduceOp op) final;
  Status broadcast(unsigned lane, void *data, size_t bytes, unsigned root) final;
  Status barrier(unsigned lane) final;
  void abort(const Status &reason) final;
  Status health() final;

protected:
  MemoryCommunicator(unsigned rank, unsigned size, SharedRegion region,
                     const CommunicatorOptions &options);

  /// Tells the peers that this rank has left. The destructor of the derived class must call this
  /// first, while the region is mapped.
  void leave();

  /// Zeroed memory of `bytes` > 0 that the peers can map.
  virtual Result<std::byte *> createArena(size_t bytes) = 0;
  /// The arena that `peer` has created.
  virtual Result<std::byte *> mapArena(unsigned peer, size_t bytes) = 0;
  /// Called when all ranks have mapped all arenas.
  virtual void arenasAreMapped() {}
  virtual bool isAlive(unsigned peer) = 0;
  /// True if the peer is stopped by a signal, as far as this can be found out.
  virtual bool isStopped(unsigned peer) = 0;
  /// "rank 1 (pid 4711)", for messages.
  virtual std::string nameOf(unsigned rank) const = 0;

  const SharedRegion region;

private:
  using Clock = std::chrono::steady_clock;
  using Progress = SharedCounter LaneState::*;

  /// A collective that is under way.
  struct Operation {
    unsigned lane;
    CollectiveDescriptor descriptor;
    Clock::time_point begin;
    size_t inputBytes; // of an input in the arena
  };

  Result<Operation> begin(unsigned lane, CollectiveKind kind, size_t count,
                          fsdp_dtype dtype = FSDP_U8, ReduceOp op = ReduceOp::Sum,
                          unsigned root = 0);
  void useArena(Operation &operation, const void *input, size_t bytes) const;

  Status gatherFromArenas(const Operation &operation, std::byte *output, size_t bytes);
  Status gatherStaged(const Operation &operation, const std::byte *input, std::byte *output,
                      size_t bytes);
  Status reduceFromArenas(const Operation &operation, std::byte *output, size_t count);
  Status reduceStaged(const Operation &operation, const std::byte *input, std::byte *output,
                      size_t count);
  Status reduceEverywhere(const Operation &operation, std::byte *data, size_t count);
  Status reduceInParts(const Operation &operation, std::byte *data, size_t count);

  /// Starts the lane's next round; returns its number.
  uint32_t publish(const Operation &operation);
  Status awaitInput(const Operation &operation, uint32_t round, unsigned peer);
  Status awaitInputs(const Operation &operation, uint32_t round);
  /// Ends a round whose inputs are in arenas: returns when all peers have read this rank's input.
  Status finishReading(const Operation &operation, uint32_t round);

  Status await(const Operation &operation, Progress progress, uint32_t round, unsigned peer);
  Status lostPeer(const Operation &operation, Progress progress, uint32_t round);
  /// The error of a rank that has waited for `peer` in vain.
  Status latePeer(unsigned peer, Progress progress, Clock::duration waited);
  Status mismatch(const Operation &operation, unsigned peer, const CollectiveDescriptor &other);
  bool isAborted() const;
  Status abortedStatus() const;
  /// The error of step `what` on this rank. Aborts the run, unless an abort caused the error.
  Status failed(const std::string &what, const Status &error);
  Status fail(const Operation &operation, const Status &cause);
  std::string describe(const Operation &operation) const;

  const std::chrono::milliseconds deadline;
  std::vector<std::byte *> arenas; // by rank; empty until made
  size_t arenaBytes = 0;

  /// Scratch data of a lane's thread.
  struct alignas(64) LaneScratch {
    LaneRanks ranks = {};
    uint32_t round = 0;
    std::vector<const std::byte *> inputs; // by rank of the lane
  };
  std::vector<LaneScratch> scratch; // by lane
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_COMM_MEMORYCOMMUNICATOR_H
