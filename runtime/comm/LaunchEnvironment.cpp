//===- LaunchEnvironment.cpp - Environment variables of launchers ---------===//

#include "comm/LauncherProcess.h"
#include "comm/Rendezvous.h"

#include <charconv>
#include <cstring>
#include <limits>

using namespace fsdp::rt;

namespace {

/// The variables of a launcher; null for those that it does not have.
struct Launcher {
  const char *name;
  const char *rank, *worldSize, *localRank;
  const char *localSize; // ranks on this host
  const char *hosts;     // number of hosts
  const char *needed;    // set only for ranks, if other processes have the rank variable, too
  const char *jobs[3];   // identify its jobs
};

// torchrun sets the same variables as a user does. Slurm sets SLURM_PROCID also for the script of a
// job, which is not part of a step, and PMI_RANK for ranks of srun --mpi=pmi2.
constexpr Launcher kLaunchers[] = {
    {"environment", "RANK", "WORLD_SIZE", "LOCAL_RANK", nullptr, nullptr, nullptr, {}},
    {"mpirun",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     nullptr,
     nullptr,
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", nullptr}},
    {"mpirun",
     "PMI_RANK",
     "PMI_SIZE",
     "MPI_LOCALRANKID",
     "MPI_LOCALNRANKS",
     nullptr,
     "MPI_LOCALNRANKS",
     {"PMI_JOBID", nullptr, nullptr}},
    {"srun",
     "SLURM_PROCID",
     "SLURM_STEP_NUM_TASKS",
     "SLURM_LOCALID",
     nullptr,
     "SLURM_STEP_NUM_NODES",
     "SLURM_STEP_NUM_TASKS",
     {"SLURM_JOB_ID", "SLURM_STEP_ID", nullptr}},
    {"mpirun",
     "PMI_RANK",
     "PMI_SIZE",
     nullptr,
     nullptr,
     nullptr,
     nullptr,
     {"PMI_JOBID", nullptr, nullptr}},
};

const char *valueOf(const GetEnvironment &get, const char *variable) {
  const char *value = variable ? get(variable) : nullptr;
  return value && *value ? value : nullptr;
}

/// A number in [least, most].
Result<unsigned> numberOf(const char *variable, const char *value, unsigned least, unsigned most) {
  unsigned number = 0;
  const char *end = value + std::strlen(value);
  auto [stop, error] = std::from_chars(value, end, number);
  if (error == std::errc() && stop == end && number >= least && number <= most)
    return number;
  return Status::error(std::string(variable) + " is '" + value + "', expected a number from " +
                       std::to_string(least) + " to " + std::to_string(most));
}

/// A port below the range from which systems take ports for outgoing connections.
uint16_t portOfJob(const std::string &job) {
  uint32_t hash = 2166136261u;
  for (char c : job)
    hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return static_cast<uint16_t>(20000 + hash % 12000);
}

} // namespace

/// Reads rank, size and local rank from the variables of `launcher`, whose rank variable is set.
static Status readRanks(const GetEnvironment &get, const Launcher &launcher,
                        LaunchEnvironment &result) {
  const char *size = valueOf(get, launcher.worldSize);
  if (!size)
    return Status::error(std::string(launcher.rank) + " is set, but " + launcher.worldSize +
                         " is not");
  constexpr unsigned kMost = 1 << 20;
  Result<unsigned> worldSize = numberOf(launcher.worldSize, size, 1, kMost);
  if (!worldSize.ok())
    return worldSize.status();
  Result<unsigned> rank = numberOf(launcher.rank, valueOf(get, launcher.rank), 0, *worldSize - 1);
  if (!rank.ok())
    return rank.status();
  result.rank = result.localRank = *rank;
  result.worldSize = *worldSize;
  if (const char *local = valueOf(get, launcher.localRank)) {
    Result<unsigned> localRank = numberOf(launcher.localRank, local, 0, *worldSize - 1);
    if (!localRank.ok())
      return localRank.status();
    result.localRank = *localRank;
  }
  return {};
}

/// Chooses the address for a launcher that names none: on one host, loopback and a port computed
/// from the job.
static Status choosePlace(const GetEnvironment &get, const Launcher &launcher,
                          LaunchEnvironment &result) {
  if (&launcher == kLaunchers)
    return Status::error("MASTER_ADDR and MASTER_PORT must be set where RANK and WORLD_SIZE are");
  std::string several;
  if (const char *local = valueOf(get, launcher.localSize)) {
    if (std::to_string(result.worldSize) != local)
      several = std::string(launcher.localSize) + " is " + local + " of " +
                std::to_string(result.worldSize) + " ranks";
  } else if (const char *hosts = valueOf(get, launcher.hosts)) {
    if (std::strcmp(hosts, "1") != 0)
      several = std::string(launcher.hosts) + " is " + hosts;
  }
  if (!several.empty())
    return Status::error("the run spans several hosts (" + several +
                         "): set MASTER_ADDR to the host of rank 0, and MASTER_PORT");
  if (result.masterAddress.empty())
    result.masterAddress = "127.0.0.1";
  if (result.masterPort == 0)
    result.masterPort = portOfJob(result.runId);
  return {};
}

Result<std::optional<LaunchEnvironment>>
fsdp::rt::readLaunchEnvironment(const GetEnvironment &get) {
  const Launcher *launcher = nullptr;
  for (const Launcher &candidate : kLaunchers)
    if (!launcher && valueOf(get, candidate.rank) &&
        (!candidate.needed || valueOf(get, candidate.needed)))
      launcher = &candidate;
  if (!launcher) {
    if (const char *size = valueOf(get, "WORLD_SIZE"); size && std::strcmp(size, "1") != 0)
      return Status::error(std::string("WORLD_SIZE is ") + size + ", but RANK is not set");
    return std::optional<LaunchEnvironment>();
  }
  LaunchEnvironment result;
  result.launcher = launcher->name;
  result.rankVariable = launcher->rank;
  if (Status status = readRanks(get, *launcher, result); !status.ok())
    return status;

  if (const char *run = valueOf(get, "TORCHELASTIC_RUN_ID"); run && launcher == kLaunchers) {
    const char *restarts = valueOf(get, "TORCHELASTIC_RESTART_COUNT");
    const char *agentStore = valueOf(get, "TORCHELASTIC_USE_AGENT_STORE");
    result.launcher = "torchrun";
    result.runId = std::string(run) + "/" + (restarts ? restarts : "0");
    result.agentStore = agentStore && std::strcmp(agentStore, "True") == 0;
  }
  for (const char *job : launcher->jobs)
    if (const char *value = valueOf(get, job))
      result.runId += (result.runId.empty() ? "" : "/") + std::string(value);
  // Ranks on one host have one launcher process, mpirun or its helper.
  if (result.runId.empty() && launcher != kLaunchers)
    result.runId = "launcher-" + std::to_string(launcherProcess(launcher->rank));

  // A process without the token finds none of the run's keys.
  if (const char *token = valueOf(get, "FSDP_RUN_TOKEN"))
    result.runId += (result.runId.empty() ? "token/" : "/token/") + std::string(token);

  if (const char *address = valueOf(get, "MASTER_ADDR"))
    result.masterAddress = address;
  if (const char *port = valueOf(get, "MASTER_PORT")) {
    Result<unsigned> number =
        numberOf("MASTER_PORT", port, 1, std::numeric_limits<uint16_t>::max());
    if (!number.ok())
      return number.status();
    result.masterPort = static_cast<uint16_t>(*number);
  }
  if (result.worldSize > 1 && (result.masterAddress.empty() || result.masterPort == 0))
    if (Status status = choosePlace(get, *launcher, result); !status.ok())
      return status;
  return std::optional<LaunchEnvironment>(result);
}

bool fsdp::rt::shareHost(const LaunchEnvironment &environment, const GetEnvironment &get) {
  std::string size = std::to_string(environment.worldSize);
  for (const char *variable : {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"})
    if (const char *value = get(variable))
      return value == size;
  if (const char *hosts = get("SLURM_STEP_NUM_NODES"); hosts && environment.launcher == "srun")
    return std::strcmp(hosts, "1") == 0;
  return environment.masterAddress == "localhost" || environment.masterAddress == "127.0.0.1" ||
         environment.masterAddress == "::1";
}
