//===- StopSignals.h - SIGINT and SIGTERM ask for a clean stop ---*- C++ -*-===//

#ifndef FSDP_RUNTIME_STOPSIGNALS_H
#define FSDP_RUNTIME_STOPSIGNALS_H

#include <csignal>

namespace fsdp::rt {

/// While this object lives, SIGINT and SIGTERM only set a flag; a second SIGINT kills the process,
/// as by default. One object per process at a time.
class StopSignals {
public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals &) = delete;
  StopSignals &operator=(const StopSignals &) = delete;

  /// True once a signal has come. Callable from any thread.
  static bool requested();

private:
  struct sigaction oldInterrupt, oldTerminate;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_STOPSIGNALS_H
