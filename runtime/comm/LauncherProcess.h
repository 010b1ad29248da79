//===- LauncherProcess.h - The process that started the ranks ----*- C++ -*-===//

#ifndef FSDP_RUNTIME_COMM_LAUNCHERPROCESS_H
#define FSDP_RUNTIME_COMM_LAUNCHERPROCESS_H

#include "comm/Rendezvous.h"

#include <string>

namespace fsdp::rt {

/// The process id of the nearest ancestor without the environment variable `rankVariable`: the
/// launcher. A wrapper of a rank (a shell, timeout, numactl) has the variable, like the rank
/// itself.
int launcherProcess(const std::string &rankVariable);

/// From now on this process is killed when its launcher ends: torchrun's agent, mpirun or its
/// daemon, srun's step daemon. Launchers are recognized by name, since a process whose launcher has
/// ended already has another parent; if that is process 1, this returns an error. A rank that a
/// user starts with plain environment variables follows no process, since its shell may exit before
/// it (nohup).
///
/// A thread waits for the end of the launcher. The kernel's parent-death signal cannot replace it:
/// that signal comes when the thread that started the rank ends, and from the parent, which may be
/// a wrapper.
Status followLauncher(const LaunchEnvironment &environment);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_COMM_LAUNCHERPROCESS_H
