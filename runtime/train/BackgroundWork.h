//===- BackgroundWork.h - Work beside the steps ------------------*- C++ -*-===//

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

/// One piece of work at a time, on a thread of its own. Its owner starts it, asks how it is, and
/// takes its status; the owner is one thread.
class BackgroundWork {
public:
  enum class State : uint32_t { Idle, Working, Done, Failed };
  /// To be left early, with any status, once `stop` is true.
  using Work = std::function<Status(const std::atomic<bool> &stop)>;

  BackgroundWork() = default;
  BackgroundWork(const BackgroundWork &) = delete;
  ~BackgroundWork() { cancel(); }

  /// While idle. Without a thread the work has failed.
  void start(Work work);
  State state() const;
  /// Waits until the work is no longer under way, at most `patience`.
  State wait(std::chrono::duration<double> patience) const;
  /// The status of work that is done or has failed; idle from then on.
  Status take();
  /// Has the work stop, if any is under way, and waits until it has; idle from then on.
  void cancel();

private:
  void finish(Status result);

  std::thread thread;
  std::atomic<bool> stop{false};
  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  State current = State::Idle; // guarded by `mutex`, as what follows
  Status status;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_BACKGROUNDWORK_H
