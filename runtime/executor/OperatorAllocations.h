//===- OperatorAllocations.h - What operators allocate, and where -*- C++ -*-===//
//
// While an operator of a plan runs, the placement allocators (of a CPU: PlacementAllocator.h, of
// CUDA devices: cuda/CudaPlacementAllocator.h) ask here for each allocation's planned address, so
// that results land where the plan wants them without a copy. An allocation is served only if its
// size matches; everything else comes from the ordinary allocator and is counted. Nothing relies on
// it for correctness: the executor looks at where results are.
//
// The current operator is a property of the thread: ranks may be threads of one process.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_OPERATORALLOCATIONS_H
#define FSDP_RUNTIME_OPERATORALLOCATIONS_H

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
  bool freed = false;  // before the recording ended
  bool placed = false; // at an expected place
};

/// What a thread's operator calls allocate. While it is begun, allocations of this thread go
/// through it.
class OperatorAllocations {
public:
  /// Serves `planned` in order: each allocation takes the first one of its size that follows those
  /// already taken. One that finds none takes the first of its size of `unmeasured`, in any order.
  void beginPlanned(std::span<const PlannedAllocation> planned,
                    std::span<const PlannedAllocation> unmeasured = {});
  /// Records. Serves one allocation of its size for each of `expected`, whoever it is for.
  void beginRecording(std::vector<PlannedAllocation> expected = {});
  /// From here on none is served.
  void stopServing() { expected.clear(); }
  /// Of those that were served since: the bytes of one that has not been freed, 0 if there is none.
  size_t keptBytes() const;
  void end();

  const std::vector<RecordedAllocation> &recorded() const { return log; }

  int64_t served = 0;    // at a planned address
  int64_t fallbacks = 0; // by the ordinary allocator, between begin and end

  // For the allocators.

  /// What this thread's operator call goes through; null: it runs none.
  static OperatorAllocations *current();
  /// The planned address of an allocation of `bytes`; null: the ordinary allocator has to serve it,
  /// and noteFallback() to be called.
  void *place(size_t bytes);
  void noteFallback(void *address, size_t bytes);
  /// An allocation is about to be freed.
  void noteFreed(const void *address);

private:
  const PlannedAllocation *next = nullptr, *last = nullptr;
  bool recording = false;
  std::vector<RecordedAllocation> log;
  std::vector<PlannedAllocation> expected; // in any order; null addresses are taken
};

/// True for addresses in a PlacedMemory.
bool isPlacedMemory(const void *address);

/// Allocations by threads that run no operator themselves, such as the helpers of a parallel
/// operator, since the process began.
int64_t allocationsByOtherThreads();
void noteAllocationByOtherThread();

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

#endif // FSDP_RUNTIME_OPERATORALLOCATIONS_H
