//===- Watchdog.h - Ends a run whose collectives do not complete -*- C++ -*-===//
//
// A thread that checks, a few times per deadline, whether the communicator is healthy (no peer died
// or aborted, no asynchronous error of NCCL) and whether every started collective makes progress.
// If not, it aborts the communicator. Then all threads that wait for the collective return, here
// and on the peers, with a message that names the collective, its group and module, and the peer if
// it is known.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_WATCH_WATCHDOG_H
#define FSDP_RUNTIME_WATCH_WATCHDOG_H

#include "watch/StepProgress.h"

#include <condition_variable>
#include <mutex>
#include <thread>

namespace fsdp::rt {

/// Finds a lane with a collective that has started and does not complete.
class StallDetector {
public:
  using Clock = std::chrono::steady_clock;

  /// A collective may take the deadline plus this multiple of its predicted time: predictions are
  /// for a collective that is alone on a quiet network.
  static constexpr int kExpectedMultiple = 10;

  StallDetector(const StepProgress &progress, std::chrono::milliseconds deadline)
      : progress(progress), deadline(deadline), sights(progress.numLanes()) {}

  /// To be called repeatedly; `now` is the time of the call. Returns a message that names the
  /// collective, or "" if no collective has been in flight, in the same step, for the deadline.
  std::string look(Clock::time_point now);

private:
  /// The last observed state of a lane, and since when.
  struct Sight {
    StepProgress::Numbers numbers;
    uint64_t step = 0;
    Clock::time_point since{};
  };

  std::string look(unsigned lane, Clock::time_point now);

  const StepProgress &progress;
  const std::chrono::milliseconds deadline;
  std::vector<Sight> sights; // by lane
};

struct WatchdogOptions {
  /// Limit from the start of a collective on this rank to its completion, in addition to its
  /// predicted time.
  std::chrono::milliseconds deadline{std::chrono::seconds(60)};
  /// Time between two checks.
  std::chrono::milliseconds interval{100};
};

class Watchdog {
public:
  /// Called once on a failure, on the watchdog's thread, with the message and StepProgress::dump().
  using Report = std::function<void(const std::string &message, const std::string &dump)>;

  /// Starts the watch. The communicator and the progress outlive the object.
  Watchdog(Communicator &communicator, const StepProgress &progress, WatchdogOptions options,
           Report report);
  /// Ends the watch.
  ~Watchdog();
  Watchdog(const Watchdog &) = delete;
  Watchdog &operator=(const Watchdog &) = delete;

  /// The failure that was found. A device's stream may run on after an abort, so its results are
  /// valid only if this is still without error after they are read. Callable from any thread.
  Status status() const;

private:
  void watch();
  Status lookForStall();
  /// "; under way: ..." or "; no collective was under way".
  std::string underWay() const;

  Communicator &communicator;
  const StepProgress &progress;
  const WatchdogOptions options;
  const Report report;
  StallDetector detector;

  mutable std::mutex mutex;
  std::condition_variable stop;
  bool stopping = false; // guarded by `mutex`, as the members below
  Status failure;
  std::thread thread; // last member: it uses the others
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_WATCH_WATCHDOG_H
