//===- PlacementAllocator.cpp - Planned addresses on a CPU ----------------===//

#include "executor/PlacementAllocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <mutex>

using namespace fsdp::rt;

namespace {
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
    OperatorAllocations *call = OperatorAllocations::current();
    if (!call) {
      noteAllocationByOtherThread();
      return c10::alloc_cpu(bytes);
    }
    if (void *planned = call->place(bytes))
      return planned;
    void *address = c10::alloc_cpu(bytes);
    call->noteFallback(address, bytes);
    return address;
  }

  static void release(void *address) {
    if (!address)
      return;
    if (OperatorAllocations *call = OperatorAllocations::current())
      call->noteFreed(address);
    if (!isPlacedMemory(address))
      c10::free_cpu(address);
  }
};
} // namespace

void fsdp::rt::installPlacementAllocator() {
  static std::once_flag once;
  std::call_once(once, [] {
    static PlacementAllocator allocator;
    constexpr uint8_t kPriority = 10; // above torch's own
    c10::SetCPUAllocator(&allocator, kPriority);
  });
}
