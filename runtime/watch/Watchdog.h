//===- Watchdog.h - Ends a run whose collectives do not complete -*- C++ -*-===//
//
// A thread that looks, a few times per deadline, whether the communicator is healthy (a peer that
// died or aborted, an asynchronous error of NCCL) and whether a collective that has started makes
// no progress. Then it aborts the communicator, so that whoever waits for the collective returns,
// here and on the peers, with a message that names the collective, its group and module, and the
// peer where that is known.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_WATCH_WATCHDOG_H
#define FSDP_RUNTIME_WATCH_WATCHDOG_H

#include "watch/StepProgress.h"

#include <condition_variable>
#include <mutex>
#include <thread>

namespace fsdp::rt {

/// Finds a lane whose collective has started and does not complete.
class StallDetector {
public:
  using Clock = std::chrono::steady_clock;

  /// A collective has the deadline and so many times what the plan predicts for it: predictions are
  /// of a collective that is alone on a quiet network.
  static constexpr int kExpectedMultiple = 10;

  StallDetector(const StepProgress &progress, std::chrono::milliseconds deadline)
      : progress(progress), deadline(deadline), sights(progress.numLanes()) {}

  /// To be called again and again; `now` is the time of the call. The message names the collective;
  /// "" if none has been seen under way, in the same step, for the deadline.
  std::string look(Clock::time_point now);

private:
  /// What a lane was seen doing, and since when.
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
  /// From the start of a collective on this rank to its completion, beside what is predicted.
  std::chrono::milliseconds deadline{std::chrono::seconds(60)};
  /// Between two looks.
  std::chrono::milliseconds interval{100};
};

class Watchdog {
public:
  /// What to do with a failure, beside aborting: called once, on the watchdog's thread, with the
  /// message and StepProgress::dump().
  using Report = std::function<void(const std::string &message, const std::string &dump)>;

  /// Watches from now on. The communicator and the progress outlive the object.
  Watchdog(Communicator &communicator, const StepProgress &progress, WatchdogOptions options,
           Report report);
  /// Ends the watch.
  ~Watchdog();
  Watchdog(const Watchdog &) = delete;
  Watchdog &operator=(const Watchdog &) = delete;

  /// The failure that was found. A device's stream may run on after an abort: what it computed is
  /// worth something only if this is still without error afterwards. Callable from any thread.
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
  bool stopping = false; // guarded by `mutex`, as what follows
  Status failure;
  std::thread thread; // last: it uses the rest
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_WATCH_WATCHDOG_H
