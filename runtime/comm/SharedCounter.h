//===- SharedCounter.h - A counter between threads or processes ---*- C++ -*-===//

#ifndef FSDP_RUNTIME_COMM_SHAREDCOUNTER_H
#define FSDP_RUNTIME_COMM_SHAREDCOUNTER_H

#include <atomic>
#include <chrono>
#include <cstdint>

namespace fsdp::rt {

/// A counter in memory that threads or processes share. One of them advances it, the others wait
/// for it; writes before an advance are visible to all who have seen the new value. The counter
/// wraps around: values that are compared must be less than 2^31 apart. All-zero memory is a
/// counter at 0.
class alignas(64) SharedCounter {
public:
  bool reached(uint32_t target) const {
    return static_cast<int32_t>(value.load(std::memory_order_acquire) - target) >= 0;
  }

  /// Spins for a few microseconds; true if `target` was reached.
  bool spinFor(uint32_t target) const;

  /// Sleeps until `target` is reached, wakeAll() is called or `limit` has passed; may return early.
  void sleepFor(uint32_t target, std::chrono::nanoseconds limit);

  /// Sets the counter, and wakes those who sleep.
  void advance(uint32_t target);

  void wakeAll();

private:
  std::atomic<uint32_t> value{0};
  /// The number of sleepers, including those about to sleep. If it is 0, advance() makes no system
  /// call. A process that is killed in its sleep leaves the number too high, which costs time only.
  std::atomic<uint32_t> sleepers{0};
};

static_assert(std::atomic<uint32_t>::is_always_lock_free, "processes share these counters");

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_COMM_SHAREDCOUNTER_H
