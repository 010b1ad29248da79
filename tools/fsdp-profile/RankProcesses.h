//===- RankProcesses.h - Runs a function on every rank ------------*- C++ -*-===//

#ifndef FSDP_TOOLS_PROFILE_RANKPROCESSES_H
#define FSDP_TOOLS_PROFILE_RANKPROCESSES_H

#include "comm/Rendezvous.h"
#include "llvm/Support/Error.h"

#include <functional>
#include <string>

namespace fsdp::profile {

/// The work of a rank, the same on all ranks. The text returned on rank 0 is the result. A body
/// aborts its communicator when it fails, and may throw.
using RankBody = std::function<rt::Result<std::string>(std::unique_ptr<rt::Communicator>)>;

/// Runs `body` on `ranks` ranks that meet in communicator `local` (threads of this process) or
/// `shm` (processes that this one forks: it must have no threads yet). Returns rank 0's text, or
/// the first error of any rank.
llvm::Expected<std::string> runOnRanks(const std::string &communicator, unsigned ranks,
                                       const RankBody &body);

/// Runs `body` in this process, which a launcher has started as one rank; `communicator` is `shm`
/// or `gloo`. Returns this rank's text or error.
llvm::Expected<std::string> runAsRank(const std::string &communicator,
                                      const rt::LaunchEnvironment &environment,
                                      const RankBody &body);

} // namespace fsdp::profile

#endif // FSDP_TOOLS_PROFILE_RANKPROCESSES_H
