//===- BackgroundWork.h - A job on a thread of its own -------- -*- C++ -*-===//

#ifndef FSDP_RUNTIME_BACKGROUNDWORK_H
#define FSDP_RUNTIME_BACKGROUNDWORK_H

#include "Status.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace fsdp::rt {

/// Runs one job at a time on a thread of its own. One thread, the owner, starts it, polls its
/// state, and takes its status.
class BackgroundWork {
public:
  enum class State : uint32_t { Idle, Working, Done, Failed };
  /// The job. It must return early, with any status, once `stop` is true.
  using Work = std::function<Status(const std::atomic<bool> &stop)>;

  BackgroundWork() = default;
  BackgroundWork(const BackgroundWork &) = delete;
  /// Stops the job, and waits for its end.
  ~BackgroundWork() { cancel(); }

  /// Starts the job; allowed only while idle. If no thread can be started, the job has failed.
  void start(Work work);
  State state() const;
  /// Waits until the job has ended, for at most `patience`.
  State wait(std::chrono::duration<double> patience) const;
  /// Returns the status of a job that is done or has failed, and becomes idle.
  Status take();
  /// Stops the job if one runs, waits for its end, and becomes idle.
  void cancel();

private:
  void finish(Status result);

  std::thread thread;
  std::atomic<bool> stop{false};
  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  State current = State::Idle; // guarded by `mutex`, as the members below
  Status status;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_BACKGROUNDWORK_H
