//===- ScratchMemory.h - Temporaries inside operators ------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_SCRATCHMEMORY_H
#define FSDP_RUNTIME_SCRATCHMEMORY_H

#include "device/Device.h"

#include <cstdlib>
#include <new>
#include <sys/mman.h>

namespace fsdp::rt {

/// Host memory for the temporaries of one operator at a time, in huge pages if available. Throws
/// std::bad_alloc.
class ScratchMemory final : public Memory {
public:
  explicit ScratchMemory(size_t bytes) : Memory(allocate(roundUp(bytes)), roundUp(bytes)) {}
  ~ScratchMemory() override { std::free(data()); }
  ScratchMemory(const ScratchMemory &) = delete;
  ScratchMemory &operator=(const ScratchMemory &) = delete;

private:
  static constexpr size_t kAlignment = 4096, kHugePage = size_t(2) << 20;

  static size_t roundUp(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

  static std::byte *allocate(size_t bytes) {
    if (bytes == 0)
      return nullptr;
    bool huge = bytes >= kHugePage;
    size_t alignment = huge ? kHugePage : kAlignment;
    void *memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (!memory)
      throw std::bad_alloc();
    if (huge)
      madvise(memory, bytes, MADV_HUGEPAGE); // a hint; nothing depends on it
    return static_cast<std::byte *>(memory);
  }
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_SCRATCHMEMORY_H
