//===- LauncherProcess.h - The process that started the ranks ----*- C++ -*-===//

#ifndef FSDP_RUNTIME_COMM_LAUNCHERPROCESS_H
#define FSDP_RUNTIME_COMM_LAUNCHERPROCESS_H

#include "comm/Rendezvous.h"

#include <string>

namespace fsdp::rt {

/// The number of the nearest ancestor that was started without the environment variable
/// `rankVariable`: the launcher, also where each rank runs in a wrapper of its own (a shell,
/// timeout, numactl), which has the variable as its rank does.
int launcherProcess(const std::string &rankVariable);

/// From now on this process is killed when its launcher ends, as its peers would be by the
/// launcher: torchrun's agent, mpirun or its daemon, srun's step daemon. They are told from others
/// by their names, as the parent of a process whose launcher has ended already is another one:
/// then, if it is process 1, this returns an error. A rank that a person starts with a plain
/// environment follows nobody: its shell may well leave (nohup).
///
/// A thread waits for the end of that process. The kernel's parent-death signal would do neither:
/// it comes when the thread that has started the rank ends, and it is about the parent, which may
/// be a wrapper.
Status followLauncher(const LaunchEnvironment &environment);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_COMM_LAUNCHERPROCESS_H
