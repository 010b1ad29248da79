//===- RepetitionWatch.h - Ends a measurement that hangs ----------*- C++ -*-===//

#ifndef FSDP_TOOLS_PROFILE_REPETITIONWATCH_H
#define FSDP_TOOLS_PROFILE_REPETITIONWATCH_H

#include "comm/Communicator.h"

#include <condition_variable>
#include <mutex>
#include <thread>

namespace fsdp::profile {

/// Watches repetitions on a device whose collectives wait for other ranks. When a peer is gone or a
/// repetition misses its deadline, it aborts the communicator, so that waiting threads return.
class RepetitionWatch {
public:
  /// `completed`: the number of completed repetitions, written by the device. The arguments must
  /// outlive this object.
  RepetitionWatch(rt::Communicator &communicator, const rt::ProgressWord &completed,
                  std::chrono::milliseconds deadline);
  ~RepetitionWatch();
  RepetitionWatch(const RepetitionWatch &) = delete;
  RepetitionWatch &operator=(const RepetitionWatch &) = delete;

  /// Notes that one more repetition was issued to the device. Returns its number, from 1.
  uint32_t noteIssued() { return issued.fetch_add(1) + 1; }
  /// The reason for aborting the communicator. Results of the device after an abort are invalid.
  rt::Status status() const;

private:
  void watch();
  /// Returns a failure, or "" if there is none.
  std::string look();

  rt::Communicator &communicator;
  const rt::ProgressWord &completed;
  const std::chrono::milliseconds deadline;
  std::atomic<uint32_t> issued{0};
  uint32_t lastCompleted = 0; // used by the watching thread only, as the members below
  std::chrono::steady_clock::time_point lastProgress;

  mutable std::mutex mutex;
  std::condition_variable stop;
  bool stopping = false; // guarded by `mutex`, as the members below
  rt::Status failure;
  std::thread thread; // last member: it uses the others
};

} // namespace fsdp::profile

#endif // FSDP_TOOLS_PROFILE_REPETITIONWATCH_H
