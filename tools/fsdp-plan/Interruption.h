//===- Interruption.h - What a signal ends is saved first --------*- C++ -*-===//

#ifndef FSDP_TOOLS_PLAN_INTERRUPTION_H
#define FSDP_TOOLS_PLAN_INTERRUPTION_H

#include <atomic>
#include <csignal>
#include <functional>
#include <thread>

namespace fsdp::plan_tool {

/// While this object lives, SIGINT and SIGTERM end the process only after a call of `save`, on a
/// thread of its own, while the other threads go on. A second signal does not wait for `save`; one
/// that the process ignores is still ignored. Threads must be started after this object, whose
/// signal mask they inherit.
class Interruption {
public:
  explicit Interruption(std::function<void()> save);
  /// Does not return once a signal has come.
  ~Interruption();

private:
  void wait();

  const std::function<void()> save;
  sigset_t signals, before; // those that are waited for; the mask to restore
  int wakeUp = 0;           // one of `signals`; 0: there is none
  std::atomic<bool> isOver = false;
  std::thread thread;
};

} // namespace fsdp::plan_tool

#endif // FSDP_TOOLS_PLAN_INTERRUPTION_H
