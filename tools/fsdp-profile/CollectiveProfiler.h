//===- CollectiveProfiler.h - The network between ranks -----------*- C++ -*-===//

#ifndef FSDP_TOOLS_PROFILE_COLLECTIVEPROFILER_H
#define FSDP_TOOLS_PROFILE_COLLECTIVEPROFILER_H

#include "comm/Rendezvous.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>

namespace fsdp::profile {

struct CollectiveOptions {
  /// The environment of the launcher that started this process as one rank; none: this process
  /// starts all ranks.
  std::optional<rt::LaunchEnvironment> launch;
  unsigned ranks = 2;
  /// Connects the ranks' hosts: "shm", "local" (threads of this process) or "gloo" (needs a
  /// launcher).
  std::string communicator = "shm";
  bool oneHost = true;
  std::string device = "cpu"; // or "cuda": over NCCL
  int samples = 20;
};

/// Measures gathers and reductions as the training binary runs them, fits a line (latency and
/// bandwidth) to each, and measures contention. Returns the network's JSON; rank 0 prints the fits.
/// With "shm" and without a launcher this process must have no other thread, since it forks. Errors
/// name the rank.
llvm::Expected<std::string> profileCollectives(const CollectiveOptions &options);

} // namespace fsdp::profile

#endif // FSDP_TOOLS_PROFILE_COLLECTIVEPROFILER_H
