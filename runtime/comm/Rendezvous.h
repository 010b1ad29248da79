//===- Rendezvous.h - How the processes of a run find each other -*- C++ -*-===//

#ifndef FSDP_RUNTIME_RENDEZVOUS_H
#define FSDP_RUNTIME_RENDEZVOUS_H

#include "Communicator.h"

#include <functional>
#include <optional>

namespace fsdp::rt {

/// The launcher's environment variables. Rank and world size come, in this order, from torchrun or
/// plain variables (RANK, WORLD_SIZE, LOCAL_RANK), mpirun (OMPI_COMM_WORLD_*, PMI_*) or srun
/// (SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID).
struct LaunchEnvironment {
  unsigned rank = 0, worldSize = 1, localRank = 0;
  std::string masterAddress;     // MASTER_ADDR; "" if unset
  uint16_t masterPort = 0;       // MASTER_PORT; 0 if unset
  bool agentStore = false;       // torchrun serves the store, so every rank is a client
  std::string runId;             // distinguishes runs and restarts that share a store
  std::string launcher;          // "torchrun", "environment", "mpirun", "srun"
  std::string rankVariable = {}; // from which the rank was read
};

using GetEnvironment = std::function<const char *(const char *)>;

/// Reads the environment through `get` (getenv in production). No value: the process was started
/// without a launcher. An error names the variable, its value and what was expected.
Result<std::optional<LaunchEnvironment>> readLaunchEnvironment(const GetEnvironment &get);

/// True if the launcher's variables say that all ranks run on this host. All ranks get the same
/// answer.
bool shareHost(const LaunchEnvironment &environment, const GetEnvironment &get);

/// Time that connect() may take beyond CommunicatorOptions::connectTimeout, to find out which ranks
/// are missing.
inline constexpr std::chrono::milliseconds kRendezvousGrace{1000};

/// A communicator between processes; `backend` is "shm" or "gloo". An error names the missing
/// ranks, and the address at which they were expected. The process must ignore SIGPIPE: gloo writes
/// to the sockets of peers that may have died.
Result<std::unique_ptr<Communicator>> connect(const std::string &backend,
                                              const LaunchEnvironment &environment,
                                              const CommunicatorOptions &options);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_RENDEZVOUS_H
