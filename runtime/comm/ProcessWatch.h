//===- ProcessWatch.h - Watches whether a process still runs -- -*- C++ -*-===//

#ifndef FSDP_RUNTIME_COMM_PROCESSWATCH_H
#define FSDP_RUNTIME_COMM_PROCESSWATCH_H

#include "comm/MappedMemory.h"

#include <cstdint>

namespace fsdp::rt {

/// Tells whether a process on this host still runs. A zombie does not count as running, nor does a
/// later process with the same id. Thread-safe.
class ProcessWatch {
public:
  /// Watches process `pid`, which runs now.
  explicit ProcessWatch(int pid);

  bool isAlive() const;
  /// True if the process is stopped by a signal or a debugger.
  bool isStopped() const;
  /// Returns when the process has ended.
  void awaitEnd() const;

private:
  int pid;
  FileDescriptor handle; // a pidfd; none if the kernel does not support pidfds
  uint64_t startTime = 0;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_COMM_PROCESSWATCH_H
