//===- ProcessWatch.h - Whether a process still runs -------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_COMM_PROCESSWATCH_H
#define FSDP_RUNTIME_COMM_PROCESSWATCH_H

#include "comm/MappedMemory.h"

#include <cstdint>

namespace fsdp::rt {

/// Tells whether a process on this host still runs. One that has ended, but whose parent has not
/// noticed yet, does not run; nor does another one that got its number later. Thread-safe.
class ProcessWatch {
public:
  /// Watches process `pid`, which runs now.
  explicit ProcessWatch(int pid);

  bool isAlive() const;
  /// By a signal, or by a debugger.
  bool isStopped() const;
  /// Returns when the process has ended.
  void awaitEnd() const;

private:
  int pid;
  FileDescriptor handle; // a pidfd; none where the kernel has no such thing
  uint64_t startTime = 0;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_COMM_PROCESSWATCH_H
