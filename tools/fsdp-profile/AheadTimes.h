//===- AheadTimes.h - Times of work that is issued ahead of a device -*- C++ -*-===//
//
// The time between two events of a device includes time in which the device was idle, because the
// host had not issued the next work yet. A graph that is launched as a whole has no such idle time.
// So each chunk of measured work is issued while the device runs a delay.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TOOLS_PROFILE_AHEADTIMES_H
#define FSDP_TOOLS_PROFILE_AHEADTIMES_H

#include "executor/EntryTimes.h"

#include <algorithm>

namespace fsdp::profile {

/// Measures a device's times for the entries of a step, or for repetitions. The first rounds
/// measure how long the host takes to issue a chunk; after delayChunks(), each chunk begins with a
/// delay of twice that time.
class AheadTimes final : public rt::EntryTracer {
public:
  /// `times` receives the measurements, and must outlive this object.
  explicit AheadTimes(rt::EntryTimes &times) : times(times) {}

  void beginRound() {
    begun = 0;
    if (!delaying)
      longest = {};
  }
  /// Errors stay in the stream, which reports them later.
  void begins(uint32_t entry, rt::Stream &stream) override {
    if (begun++ % kChunk == 0) {
      chunkBegan = Clock::now();
      if (delaying)
        (void)stream.delay(2 * longest + kMargin);
    }
    times.begins(entry, stream);
  }
  void ends(uint32_t entry, rt::Stream &stream) override {
    times.ends(entry, stream);
    if (!delaying)
      longest = std::max<std::chrono::nanoseconds>(longest, Clock::now() - chunkBegan);
  }
  /// Chunks are delayed from the next round on.
  void delayChunks() { delaying = true; }

private:
  using Clock = std::chrono::steady_clock;
  // With a few launches per entry, a chunk has fewer launches than a CUDA stream queues before the
  // host blocks (about a thousand).
  static constexpr unsigned kChunk = 32;
  static constexpr std::chrono::microseconds kMargin{50};

  rt::EntryTimes &times;
  unsigned begun = 0; // in this round
  bool delaying = false;
  Clock::time_point chunkBegan;
  std::chrono::nanoseconds longest{0}; // to issue a chunk of the round
};

} // namespace fsdp::profile

#endif // FSDP_TOOLS_PROFILE_AHEADTIMES_H
