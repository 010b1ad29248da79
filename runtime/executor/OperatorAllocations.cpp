//===- OperatorAllocations.cpp - Allocations of operators -----------------===//

#include "executor/OperatorAllocations.h"

#include <atomic>
#include <mutex>
#include <utility>

using namespace fsdp::rt;

//===----------------------------------------------------------------------===//
// Memory that tensors must not free
//===----------------------------------------------------------------------===//

// A list that only grows, so that any thread may read it without a lock. A node has a few bytes,
// and an executor adds two. An emptied range stays in the list.
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

bool fsdp::rt::isPlacedMemory(const void *pointer) {
  const auto *byte = static_cast<const std::byte *>(pointer);
  for (Range *range = firstRange.load(std::memory_order_acquire); range; range = range->next)
    if (byte >= range->begin && byte < range->end.load(std::memory_order_relaxed))
      return true;
  return false;
}

//===----------------------------------------------------------------------===//
// The allocations of a thread's operator
//===----------------------------------------------------------------------===//

[[gnu::tls_model("initial-exec")]] static thread_local OperatorAllocations *currentCall = nullptr;
static std::atomic<int64_t> elsewhere{0};

int64_t fsdp::rt::allocationsByOtherThreads() { return elsewhere.load(std::memory_order_relaxed); }

void fsdp::rt::noteAllocationByOtherThread() { elsewhere.fetch_add(1, std::memory_order_relaxed); }

OperatorAllocations *OperatorAllocations::current() { return currentCall; }

void *OperatorAllocations::place(size_t bytes) {
  for (const PlannedAllocation *it = next; it != last; ++it)
    if (it->bytes == bytes && it->address) {
      next = it + 1;
      ++served;
      return it->address;
    }
  for (PlannedAllocation &place : expected)
    if (place.bytes == bytes && place.address) {
      std::byte *address = std::exchange(place.address, nullptr);
      if (recording)
        log.push_back({bytes, address, false, true});
      ++served;
      return address;
    }
  return nullptr;
}

void OperatorAllocations::noteFallback(void *address, size_t bytes) {
  ++fallbacks;
  if (recording)
    log.push_back({bytes, static_cast<std::byte *>(address)});
}

void OperatorAllocations::noteFreed(const void *address) {
  if (!recording)
    return;
  for (size_t i = log.size(); i-- > 0;) {
    RecordedAllocation &entry = log[i];
    if (entry.address == address && !entry.freed) {
      entry.freed = true;
      break;
    }
  }
}

void OperatorAllocations::beginPlanned(std::span<const PlannedAllocation> planned,
                                       std::span<const PlannedAllocation> unmeasured) {
  next = planned.data();
  last = next + planned.size();
  expected.assign(unmeasured.begin(), unmeasured.end());
  recording = false;
  currentCall = this;
}

void OperatorAllocations::beginRecording(std::vector<PlannedAllocation> places) {
  next = last = nullptr;
  expected = std::move(places);
  recording = true;
  log.clear();
  currentCall = this;
}

size_t OperatorAllocations::keptBytes() const {
  for (const RecordedAllocation &entry : log)
    if (entry.placed && !entry.freed)
      return entry.bytes;
  return 0;
}

void OperatorAllocations::end() {
  currentCall = nullptr;
  expected.clear();
  recording = false;
}
