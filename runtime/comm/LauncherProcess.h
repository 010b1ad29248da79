//===- LauncherProcess.h - The process that started the ranks ----*- C++ -*-===//

#ifndef FSDP_RUNTIME_COMM_LAUNCHERPROCESS_H
#define FSDP_RUNTIME_COMM_LAUNCHERPROCESS_H

#include <string>

namespace fsdp::rt {

/// The number of the nearest ancestor that was started without the environment variable
/// `rankVariable`: the launcher, also where each rank runs in a wrapper of its own (a shell,
/// timeout, numactl), which has the variable as its rank does.
int launcherProcess(const std::string &rankVariable);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_COMM_LAUNCHERPROCESS_H
