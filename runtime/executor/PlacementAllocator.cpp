//===- PlacementAllocator.cpp - Operators allocate where planned -----------===//

#include "executor/PlacementAllocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <atomic>
#include <mutex>

using namespace fsdp::rt;

//===----------------------------------------------------------------------===//
// Memory that is not to be freed
//===----------------------------------------------------------------------===//

// A list that only grows, so that any thread may read it without a lock; a node is a few bytes and
// there are two per executor. An emptied range stays in the list.
struct fsdp::rt::Range {
  const std::byte *const begin;
  std::atomic<const std::byte *> end;
  Range *const next;
};

static std::atomic<Range *> firstRange{nullptr};
static std::mutex rangesMutex;

PlacedMemory::PlacedMemory(const std::byte *begin, size_t bytes) {
  std::lock_guard lock(rangesMutex);
  range = new Range{begin, begin + bytes, firstRange.load()};
  firstRange.store(range, std::memory_order_release);
}

PlacedMemory::~PlacedMemory() { range->end.store(range->begin); }

static bool isPlaced(const void *pointer) {
  const auto *byte = static_cast<const std::byte *>(pointer);
  for (Range *range = firstRange.load(std::memory_order_acquire); range; range = range->next)
    if (byte >= range->begin && byte < range->end.load(std::memory_order_relaxed))
      return true;
  return false;
}

//===----------------------------------------------------------------------===//
// The allocator
//===----------------------------------------------------------------------===//

[[gnu::tls_model("initial-exec")]] static thread_local OperatorAllocations *current = nullptr;
static std::atomic<int64_t> elsewhere{0};

int64_t fsdp::rt::allocationsByOtherThreads() { return elsewhere.load(std::memory_order_relaxed); }

namespace fsdp::rt {
class PlacementAllocator final : public c10::Allocator {
public:
  c10::DataPtr allocate(size_t bytes) override {
    void *address = bytes == 0 ? nullptr : place(bytes);
    return {address, address, &release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void *to, const void *from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

private:
  static void *place(size_t bytes) {
    OperatorAllocations *allocations = current;
    if (!allocations) {
      elsewhere.fetch_add(1, std::memory_order_relaxed);
      return c10::alloc_cpu(bytes);
    }
    for (const PlannedAllocation *it = allocations->next; it != allocations->last; ++it)
      if (it->bytes == bytes && it->address) {
        allocations->next = it + 1;
        ++allocations->served;
        return it->address;
      }
    ++allocations->fallbacks;
    void *address = c10::alloc_cpu(bytes);
    if (allocations->recording)
      allocations->log.push_back({bytes, static_cast<std::byte *>(address), false});
    return address;
  }

  static void release(void *pointer) {
    if (!pointer || isPlaced(pointer))
      return;
    if (OperatorAllocations *allocations = current; allocations && allocations->recording)
      for (size_t i = allocations->log.size(); i-- > 0;) {
        RecordedAllocation &entry = allocations->log[i];
        if (entry.address == pointer && !entry.freed) {
          entry.freed = true;
          break;
        }
      }
    c10::free_cpu(pointer);
  }
};
} // namespace fsdp::rt

void fsdp::rt::installPlacementAllocator() {
  static std::once_flag once;
  std::call_once(once, [] {
    static PlacementAllocator allocator;
    constexpr uint8_t kPriority = 10; // over torch's own
    c10::SetCPUAllocator(&allocator, kPriority);
  });
}

void OperatorAllocations::beginPlanned(std::span<const PlannedAllocation> planned) {
  next = planned.data();
  last = next + planned.size();
  recording = false;
  current = this;
}

void OperatorAllocations::beginRecording() {
  next = last = nullptr;
  recording = true;
  log.clear();
  current = this;
}

void OperatorAllocations::end() {
  current = nullptr;
  recording = false;
}
