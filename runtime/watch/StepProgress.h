//===- StepProgress.h - A rank's progress in its plan --------- -*- C++ -*-===//
//
// Keeps for every stream which of its plan entries was issued, started and completed last. Streams
// of a device write their progress into memory that the host reads (Stream::mark), in a replayed
// graph, too. So a watchdog can name the collective that hangs, although the host is far ahead.
//
// The collectives of a step have numbers from 1 on their lane, in the order of issue. While number
// n runs, `started` is n and `completed` is n - 1.
//
// Threads: beginStep() and followCompute() are called by the thread that runs the step; the
// functions for a lane by the thread that issues its collectives. Everything may be read from any
// thread.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_WATCH_STEPPROGRESS_H
#define FSDP_RUNTIME_WATCH_STEPPROGRESS_H

#include "watch/PlanLanes.h"

#include <mutex>

namespace fsdp::rt {

class StepProgress {
public:
  /// The progress of the host and the stream on one lane; numbers as above, 0: nothing yet.
  struct Numbers {
    uint32_t issued = 0, started = 0, completed = 0;
    bool operator==(const Numbers &) const = default;
  };

  /// The plan outlives the object. An error if `device` has no memory for the numbers.
  static Result<std::unique_ptr<StepProgress>> create(const PlanView &plan, Device &device);

  /// Begins step `number` of the run, from 1.
  void beginStep(uint64_t number) { current.store(number, std::memory_order_relaxed); }
  /// The last step that was begun; 0: none.
  uint64_t currentStep() const { return current.load(std::memory_order_relaxed); }

  /// The number of lanes, including control, which has no progress.
  unsigned numLanes() const { return static_cast<unsigned>(lanes.size()); }
  /// "gather lane".
  std::string laneName(unsigned lane) const;
  /// The plan's entries on a lane, in order of issue.
  std::span<const uint32_t> entriesOf(unsigned lane) const { return lanes[lane].entries; }

  /// Notes the issue of the lane's next collective. Returns its number, from 1. After the last
  /// collective the numbers begin again.
  uint32_t issue(unsigned lane);
  /// Undoes the issue of collectives after `number`.
  void resumeAfter(unsigned lane, uint32_t number) {
    lanes[lane].issued.store(number, std::memory_order_relaxed);
  }
  ProgressWord &started(unsigned lane) const { return words[2 * lane]; }
  ProgressWord &completed(unsigned lane) const { return words[2 * lane + 1]; }
  Numbers numbers(unsigned lane) const;

  /// Notes that a stream could not write its progress: from now on it is unknown which collectives
  /// have started and completed. The reason of the first call is kept.
  void loseMarks(const std::string &reason);
  /// The reason why it is unknown which collectives have started and completed; "" if it is known.
  std::string lostMarks() const;

  /// From now on reads the last entry given to the compute stream from `entry`. To be called before
  /// the watch begins; `entry` outlives it.
  void followCompute(const std::atomic<uint32_t> &entry) { compute = &entry; }

  /// The predicted duration of the launch that begins with `number`, from 1; 0: unknown.
  std::chrono::nanoseconds expected(unsigned lane, uint32_t number) const;

  /// `reduce_scatter of group "layers.1" in backward (entry 35 of 211)`; `number` from 1.
  std::string describe(unsigned lane, uint32_t number) const;
  /// A line per stream, each ended by a newline:
  /// "gather lane: issued ..., started ..., completed ...".
  std::string dump() const;

private:
  struct Lane {
    std::vector<uint32_t> entries; // of the plan
    std::atomic<uint32_t> issued{0};
  };

  StepProgress(const PlanView &plan, std::unique_ptr<Memory> memory);
  std::string describeEntry(uint32_t entry) const;

  const PlanView plan;
  std::unique_ptr<Memory> memory;
  ProgressWord *words; // in `memory`
  std::vector<Lane> lanes;
  std::atomic<uint64_t> current{0};
  mutable std::mutex mutex;
  std::string lost; // guarded by `mutex`
  const std::atomic<uint32_t> *compute = nullptr;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_WATCH_STEPPROGRESS_H
