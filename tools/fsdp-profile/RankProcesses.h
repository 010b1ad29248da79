//===- RankProcesses.h - Runs a function on every rank ------------*- C++ -*-===//

#ifndef FSDP_TOOLS_PROFILE_RANKPROCESSES_H
#define FSDP_TOOLS_PROFILE_RANKPROCESSES_H

#include "comm/Communicator.h"
#include "llvm/Support/Error.h"

#include <functional>
#include <string>

namespace fsdp::profile {

/// What a rank does; the text that it returns comes back for rank 0. The same on all ranks.
using RankBody = std::function<rt::Result<std::string>(rt::Communicator &)>;

/// Runs `body` on `ranks` ranks that meet in communicator `local` (threads of this process) or
/// `shm` (processes that this one forks: it must have no threads yet). The text of rank 0, or the
/// first error of any rank.
llvm::Expected<std::string> runOnRanks(const std::string &communicator, unsigned ranks,
                                       const RankBody &body);

} // namespace fsdp::profile

#endif // FSDP_TOOLS_PROFILE_RANKPROCESSES_H
