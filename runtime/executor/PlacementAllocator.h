//===- PlacementAllocator.h - Operators allocate where planned --*- C++ -*-===//
//
// Functional operators allocate their results. The placement allocator, torch's CPU allocator once
// it is installed, hands out planned addresses while an operator of a plan runs, so that results
// land where the plan wants them without a copy. It serves an allocation only if its size matches;
// everything else comes from the ordinary allocator and is counted. Nothing relies on it for
// correctness: the executor looks at where results are.
//
// The current operator is a property of the thread: ranks may be threads of one process.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_PLACEMENTALLOCATOR_H
#define FSDP_RUNTIME_PLACEMENTALLOCATOR_H

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace fsdp::rt {

/// The allocations of one operator call, in order. A null address: the ordinary allocator.
struct PlannedAllocation {
  size_t bytes = 0;
  std::byte *address = nullptr;
};

/// An allocation as it happened.
struct RecordedAllocation {
  size_t bytes = 0;
  std::byte *address = nullptr;
  bool freed = false; // before the recording ended
};

/// What a thread's operator calls allocate. While it is begun, allocations of this thread go
/// through it.
class OperatorAllocations {
public:
  /// Serves `planned` in order: each allocation takes the first one of its size that follows those
  /// already taken.
  void beginPlanned(std::span<const PlannedAllocation> planned);
  /// Serves nothing, and records.
  void beginRecording();
  void end();

  const std::vector<RecordedAllocation> &recorded() const { return log; }

  int64_t served = 0;    // at a planned address
  int64_t fallbacks = 0; // by the ordinary allocator, between begin and end

private:
  friend class PlacementAllocator;

  const PlannedAllocation *next = nullptr, *last = nullptr;
  bool recording = false;
  std::vector<RecordedAllocation> log;
};

/// Allocations by threads that run no operator themselves, such as the helpers of a parallel
/// operator, since the process began.
int64_t allocationsByOtherThreads();

/// Makes the placement allocator torch's CPU allocator. Once per process; further calls do nothing.
void installPlacementAllocator();

/// Memory that tensors may refer to but that is not to be freed with them; for the life of the
/// object.
class PlacedMemory {
public:
  PlacedMemory(const std::byte *begin, size_t bytes);
  ~PlacedMemory();
  PlacedMemory(const PlacedMemory &) = delete;
  PlacedMemory &operator=(const PlacedMemory &) = delete;

private:
  struct Range *range;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_PLACEMENTALLOCATOR_H
