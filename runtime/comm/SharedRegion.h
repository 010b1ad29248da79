//===- SharedRegion.h - Memory through which ranks meet ----------*- C++ -*-===//
//
// The layout of the memory that all ranks of a `local` or `shm` communicator see: the ranks' own
// state, their progress in every lane, and staging space for inputs outside the arenas. All-zero
// memory is the state before the first collective.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_COMM_SHAREDREGION_H
#define FSDP_RUNTIME_COMM_SHAREDREGION_H

#include "comm/Communicator.h"
#include "comm/SharedCounter.h"

#include <cstddef>

namespace fsdp::rt {

enum class CollectiveKind : uint32_t { AllGather, ReduceScatter, AllReduce, Broadcast, Barrier };

/// The collective that a rank has issued; equal on all ranks that take part, except `offset`.
struct CollectiveDescriptor {
  CollectiveKind kind;
  ReduceOp op;      // of reductions, else Sum
  uint32_t dtype;   // of reductions, else FSDP_U8
  uint32_t root;    // of broadcasts, else 0
  uint64_t count;   // elements as the caller passes them; bytes where there is no dtype
  uint32_t inArena; // 1: peers read the input in the rank's arena
  uint32_t reserved;
  uint64_t offset; // of the input in the arena
};

/// Progress of one rank in one lane. A collective has one round or more; rounds are numbered
/// from 1.
struct LaneState {
  SharedCounter published; // the last round whose input this rank has made readable
  SharedCounter consumed;  // the last round in arenas whose inputs this rank has finished reading
  /// Indexed by the round's parity. The entry of round n is rewritten in round n + 2, which a rank
  /// enters when all ranks have published round n + 1, and so have finished round n.
  CollectiveDescriptor descriptors[2];
};

/// State that a rank publishes about itself.
struct alignas(64) RankState {
  std::atomic<uint32_t> left; // 1: its communicator is destroyed
  int32_t pid;                // shm
  int32_t arenaFile;          // shm: a file descriptor of that process
  uint64_t arenaBytes;        // 0: not made yet
};

/// The first abort: the rank that caused it, and the error of later calls.
struct alignas(64) AbortState {
  static constexpr size_t kReasonBytes = 1024;
  enum : uint32_t { None = 0, Writing = 1, Done = 2 };
  std::atomic<uint32_t> state;
  uint32_t rank;
  uint32_t saidBytes; // of the reason's end: Status::said()
  char reason[kReasonBytes];
};

/// Identifies the run that owns this memory: a random number that the run's ranks tell each other.
struct alignas(64) RunState {
  uint64_t token;
};

/// A view of the shared memory.
class SharedRegion {
public:
  /// Bytes of one half of a rank's staging space in a lane.
  static constexpr size_t kStagingBytes = size_t(1) << 20;

  SharedRegion(std::byte *base, unsigned size, unsigned numLanes)
      : base(base), size(size), numLanes(numLanes) {}

  /// Bytes of the region of `size` ranks.
  static size_t bytes(unsigned size, unsigned numLanes) {
    return stagingOffset(size, numLanes) + size * rankStagingBytes(numLanes);
  }

  RunState &run() const { return *reinterpret_cast<RunState *>(base); }
  AbortState &abortState() const {
    return *reinterpret_cast<AbortState *>(base + sizeof(RunState));
  }
  RankState &rank(unsigned rank) const {
    return reinterpret_cast<RankState *>(base + sizeof(RunState) + sizeof(AbortState))[rank];
  }
  LaneState &lane(unsigned lane, unsigned rank) const {
    return reinterpret_cast<LaneState *>(base + lanesOffset(size))[lane * size + rank];
  }
  /// Staging space of `rank` for rounds of the parity of `round`. The data of round n are
  /// overwritten in round n + 2 at the earliest.
  std::byte *staging(unsigned lane, unsigned rank, uint32_t round) const {
    return base + stagingOffset(size, numLanes) + rank * rankStagingBytes(numLanes) +
           (2 * lane + round % 2) * kStagingBytes;
  }

private:
  static size_t rankStagingBytes(unsigned numLanes) { return numLanes * 2 * kStagingBytes; }

  static size_t lanesOffset(unsigned size) {
    return sizeof(RunState) + sizeof(AbortState) + size * sizeof(RankState);
  }
  static size_t stagingOffset(unsigned size, unsigned numLanes) {
    size_t end = lanesOffset(size) + numLanes * size * sizeof(LaneState);
    return (end + 4095) / 4096 * 4096;
  }

  std::byte *base;
  unsigned size, numLanes;
};

static_assert(sizeof(RunState) % 64 == 0 && sizeof(AbortState) % 64 == 0 &&
              sizeof(RankState) % 64 == 0 && sizeof(LaneState) % 64 == 0);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_COMM_SHAREDREGION_H
