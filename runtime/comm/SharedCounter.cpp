//===- SharedCounter.cpp - A counter between threads or processes ---------===//

#include "comm/SharedCounter.h"

#include <climits>
#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace fsdp::rt;

// Few spins, since on a host whose cores are all busy, a spinning rank takes time from the rank
// that it waits for.
static constexpr int kSpins = 64;

static void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

static long futex(const std::atomic<uint32_t> &word, int operation, uint32_t argument,
                  const timespec *limit) {
  return syscall(SYS_futex, &word, operation, argument, limit, nullptr, 0);
}

bool SharedCounter::spinFor(uint32_t target) const {
  for (int i = 0; i < kSpins; ++i) {
    if (reached(target))
      return true;
    relax();
  }
  return reached(target);
}

void SharedCounter::sleepFor(uint32_t target, std::chrono::nanoseconds limit) {
  // This thread announces itself, then reads the value; advance() writes the value, then reads the
  // number of sleepers. So either this thread sees the new value, or advance() sees the sleeper.
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  uint32_t seen = value.load(std::memory_order_seq_cst);
  if (static_cast<int32_t>(seen - target) < 0) {
    timespec time{};
    time.tv_sec = static_cast<time_t>(limit.count() / 1000000000);
    time.tv_nsec = static_cast<long>(limit.count() % 1000000000);
    futex(value, FUTEX_WAIT, seen, &time);
  }
  sleepers.fetch_sub(1, std::memory_order_relaxed);
}

void SharedCounter::advance(uint32_t target) {
  value.store(target, std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_seq_cst) != 0)
    wakeAll();
}

void SharedCounter::wakeAll() { futex(value, FUTEX_WAKE, INT_MAX, nullptr); }
