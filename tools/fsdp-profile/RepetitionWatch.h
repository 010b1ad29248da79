//===- RepetitionWatch.h - Ends a measurement that hangs ----------*- C++ -*-===//

#ifndef FSDP_TOOLS_PROFILE_REPETITIONWATCH_H
#define FSDP_TOOLS_PROFILE_REPETITIONWATCH_H

#include "comm/Communicator.h"

#include <condition_variable>
#include <mutex>
#include <thread>

namespace fsdp::profile {

/// Watches repetitions on a device whose collectives wait for other ranks. When a peer has gone or
/// a repetition does not complete, it aborts the communicator, so that whoever waits returns.
class RepetitionWatch {
public:
  /// `completed`: repetitions that the device has completed, as it writes them. What is given
  /// outlives the object.
  RepetitionWatch(rt::Communicator &communicator, const rt::ProgressWord &completed,
                  std::chrono::milliseconds deadline);
  ~RepetitionWatch();
  RepetitionWatch(const RepetitionWatch &) = delete;
  RepetitionWatch &operator=(const RepetitionWatch &) = delete;

  /// One more repetition has been given to the device; its number, from 1.
  uint32_t noteIssued() { return issued.fetch_add(1) + 1; }
  /// Why the communicator was aborted. What the device did after that is worth nothing.
  rt::Status status() const;

private:
  void watch();
  /// "" while all is well.
  std::string look();

  rt::Communicator &communicator;
  const rt::ProgressWord &completed;
  const std::chrono::milliseconds deadline;
  std::atomic<uint32_t> issued{0};
  uint32_t lastCompleted = 0; // of the watching thread, as what follows
  std::chrono::steady_clock::time_point lastProgress;

  mutable std::mutex mutex;
  std::condition_variable stop;
  bool stopping = false; // guarded by `mutex`, as what follows
  rt::Status failure;
  std::thread thread; // last: it uses the rest
};

} // namespace fsdp::profile

#endif // FSDP_TOOLS_PROFILE_REPETITIONWATCH_H
