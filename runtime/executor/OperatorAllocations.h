//===- OperatorAllocations.h - Allocations of operators ------- -*- C++ -*-===//
//
// While an operator of a plan runs, the placement allocators (of a CPU: PlacementAllocator.h, of
// CUDA devices: cuda/CudaPlacementAllocator.h) ask here for each allocation's planned address, so
// that results are at their planned addresses without a copy. An allocation is served only if its
// size matches; all others come from the ordinary allocator and are counted. Correctness does not
// depend on it: the executor checks the addresses of results.
//
// The current operator is thread-local, since ranks may be threads of one process.
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

/// A recorded allocation.
struct RecordedAllocation {
  size_t bytes = 0;
  std::byte *address = nullptr;
  bool freed = false;  // before the recording ended
  bool placed = false; // served at an expected address
};

/// Serves and records the allocations of a thread's operator calls. Between begin and end,
/// allocations of this thread go through it.
class OperatorAllocations {
public:
  /// Serves `planned` in order: each allocation takes the first entry of its size after those
  /// already taken. If there is none, it takes the first entry of its size in `unmeasured`, in any
  /// order.
  void beginPlanned(std::span<const PlannedAllocation> planned,
                    std::span<const PlannedAllocation> unmeasured = {});
  /// Records all allocations. Each entry of `expected` serves one allocation of its size, whichever
  /// comes first.
  void beginRecording(std::vector<PlannedAllocation> expected = {});
  /// From now on no allocation is served.
  void stopServing() { expected.clear(); }
  /// The bytes of a served allocation that has not been freed, 0 if there is none.
  size_t keptBytes() const;
  void end();

  const std::vector<RecordedAllocation> &recorded() const { return log; }

  int64_t served = 0;    // at a planned address
  int64_t fallbacks = 0; // by the ordinary allocator, between begin and end

  // For the allocators.

  /// The object that serves this thread's operator call; null: the thread runs none.
  static OperatorAllocations *current();
  /// The planned address of an allocation of `bytes`; null: the ordinary allocator must serve it,
  /// and noteFallback() must be called.
  void *place(size_t bytes);
  void noteFallback(void *address, size_t bytes);
  /// An allocation is about to be freed.
  void noteFreed(const void *address);

private:
  const PlannedAllocation *next = nullptr, *last = nullptr;
  bool recording = false;
  std::vector<RecordedAllocation> log;
  std::vector<PlannedAllocation> expected; // in any order; a null address is taken already
};

/// True for addresses in a PlacedMemory.
bool isPlacedMemory(const void *address);

/// The number of allocations, since the process began, by threads that run no operator themselves,
/// such as the helper threads of a parallel operator.
int64_t allocationsByOtherThreads();
void noteAllocationByOtherThread();

/// Registers memory that tensors may refer to but must not free, for the life of the object.
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
