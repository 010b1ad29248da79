//===- AheadTimes.h - Times of work that is issued ahead of a device -*- C++ -*-===//
//
// Between two events that a device takes also lies the time in which it had nothing to do because
// the host had not issued the next work yet. A graph that is launched as a whole knows no such
// times. So each chunk of what is measured is issued while the device is delayed.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TOOLS_PROFILE_AHEADTIMES_H
#define FSDP_TOOLS_PROFILE_AHEADTIMES_H

#include "executor/EntryTimes.h"

#include <algorithm>

namespace fsdp::profile {

/// Times of the entries of a step, or of repetitions, of a device. The first rounds show how long
/// the host takes for a chunk; once asked to, each chunk begins with a delay of twice that.
class AheadTimes final : public rt::EntryTracer {
public:
  /// `times` takes them, and outlives the object.
  explicit AheadTimes(rt::EntryTimes &times) : times(times) {}

  void beginRound() {
    begun = 0;
    if (!delaying)
      longest = {};
  }
  /// The stream keeps its errors.
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
  /// From the next round on chunks are delayed.
  void delayChunks() { delaying = true; }

private:
  using Clock = std::chrono::steady_clock;
  // With some launches per entry still fewer than a stream of CUDA takes before the host has to
  // wait (about a thousand).
  static constexpr unsigned kChunk = 32;
  static constexpr std::chrono::microseconds kMargin{50};

  rt::EntryTimes &times;
  unsigned begun = 0; // of the round
  bool delaying = false;
  Clock::time_point chunkBegan;
  std::chrono::nanoseconds longest{0}; // of a round's chunks
};

} // namespace fsdp::profile

#endif // FSDP_TOOLS_PROFILE_AHEADTIMES_H
