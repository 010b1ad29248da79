//===- ScratchMemory.h - Temporaries inside operators ------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_SCRATCHMEMORY_H
#define FSDP_RUNTIME_SCRATCHMEMORY_H

#include "executor/PlacementAllocator.h"

#include <cstdlib>
#include <new>
#include <sys/mman.h>

namespace fsdp::rt {

/// Memory for the temporaries of one operator at a time, in huge pages where there are any. Tensors
/// may refer to it.
class ScratchMemory {
public:
  explicit ScratchMemory(size_t bytes)
      : bytes((bytes + kAlignment - 1) / kAlignment * kAlignment), memory(allocate(this->bytes)),
        placed(memory, this->bytes) {}
  ~ScratchMemory() { std::free(memory); }
  ScratchMemory(const ScratchMemory &) = delete;
  ScratchMemory &operator=(const ScratchMemory &) = delete;

  std::byte *data() const { return memory; }

private:
  static constexpr size_t kAlignment = 4096, kHugePage = size_t(2) << 20;

  static std::byte *allocate(size_t bytes) {
    if (bytes == 0)
      return nullptr;
    bool huge = bytes >= kHugePage;
    size_t alignment = huge ? kHugePage : kAlignment;
    void *memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (!memory)
      throw std::bad_alloc();
    if (huge)
      madvise(memory, bytes, MADV_HUGEPAGE); // a wish; nothing depends on it
    return static_cast<std::byte *>(memory);
  }

  size_t bytes;
  std::byte *memory;
  PlacedMemory placed;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_SCRATCHMEMORY_H
