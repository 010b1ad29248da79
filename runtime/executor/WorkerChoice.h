//===- WorkerChoice.h - Which thread runs a collective -------- -*- C++ -*-===//

#ifndef FSDP_RUNTIME_WORKERCHOICE_H
#define FSDP_RUNTIME_WORKERCHOICE_H

#include <algorithm>
#include <chrono>

namespace fsdp::rt {

/// Decides whether a collective runs on its stream's worker, beside computation. If the compute
/// thread waits for the collective almost at once, waking the worker costs more than it gains; then
/// the compute thread runs the collective itself, at its wait.
class WorkerChoice {
public:
  void noteStart() { started = Clock::now(); }
  void noteWait() { shortestGap = std::min(shortestGap, Clock::now() - started); }
  bool deferred() const { return shortestGap < kWorthWaking; }

private:
  using Clock = std::chrono::steady_clock;
  static constexpr Clock::duration kWorthWaking = std::chrono::microseconds(50);

  Clock::time_point started;
  Clock::duration shortestGap = Clock::duration::max(); // from start to wait, of all steps
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_WORKERCHOICE_H
