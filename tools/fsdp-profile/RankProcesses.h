//===- RankProcesses.h - Runs a function on every rank ------------*- C++ -*-===//

#ifndef FSDP_TOOLS_PROFILE_RANKPROCESSES_H
#define FSDP_TOOLS_PROFILE_RANKPROCESSES_H

#include "comm/Rendezvous.h"
#include "llvm/Support/Error.h"

#include <functional>
#include <string>

namespace fsdp::profile {

/// What a rank does; the text that it returns comes back for rank 0. The same on all ranks. It
/// aborts its communicator when it fails, and may throw.
using RankBody = std::function<rt::Result<std::string>(std::unique_ptr<rt::Communicator>)>;

/// Runs `body` on `ranks` ranks that meet in communicator `local` (threads of this process) or
/// `shm` (processes that this one forks: it must have no threads yet). The text of rank 0, or the
/// first error of any rank.
llvm::Expected<std::string> runOnRanks(const std::string &communicator, unsigned ranks,
                                       const RankBody &body);

/// Runs `body` in this process, which a launcher has started as one rank; `communicator` is `shm`
/// or `gloo`. The own text, or the own error.
llvm::Expected<std::string> runAsRank(const std::string &communicator,
                                      const rt::LaunchEnvironment &environment,
                                      const RankBody &body);

} // namespace fsdp::profile

#endif // FSDP_TOOLS_PROFILE_RANKPROCESSES_H
