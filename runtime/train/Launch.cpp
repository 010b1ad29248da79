//===- Launch.cpp - How the ranks of a run come to be ---------------------===//

#include "train/Launch.h"

#include <unistd.h>

using namespace fsdp::rt;

/// True if the launcher says that all ranks run on this host. All ranks come to the same answer.
static bool shareHost(const LaunchEnvironment &environment, const GetEnvironment &get) {
  std::string size = std::to_string(environment.worldSize);
  for (const char *variable : {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"})
    if (const char *value = get(variable))
      return value == size;
  for (const char *variable : {"SLURM_STEP_NUM_NODES", "SLURM_NNODES"})
    if (const char *value = get(variable); value && environment.launcher == "srun")
      return std::string(value) == "1";
  return environment.masterAddress == "localhost" || environment.masterAddress == "127.0.0.1" ||
         environment.masterAddress == "::1";
}

/// "2 ranks (mesh dp=2)".
static std::string compiledFor(const PlanView &plan) {
  std::string size = std::to_string(plan.tables().world_size);
  return size + (size == "1" ? " rank" : " ranks") + " (mesh " + plan.string(plan.tables().axis) +
         "=" + size + ")";
}

Result<Launch> fsdp::rt::decideLaunch(const TrainOptions &options,
                                      const std::optional<LaunchEnvironment> &environment,
                                      const GetEnvironment &get, const PlanView &plan) {
  unsigned size = plan.tables().world_size;
  bool launched = environment && environment->worldSize > 1;
  if (options.ranks) {
    std::string flag = "--ranks " + std::to_string(*options.ranks);
    if (launched)
      return Status::error(flag + " runs the ranks as threads of one process, but " +
                           environment->launcher + " started " +
                           std::to_string(environment->worldSize) + " processes");
    if (*options.ranks != size)
      return Status::error(flag + ", but this binary is compiled for " + compiledFor(plan));
    return Launch{"local", {}};
  }
  if (launched || (environment && size > 1)) {
    if (environment->worldSize != size)
      return Status::error(environment->launcher + " started " +
                           std::to_string(environment->worldSize) +
                           (environment->worldSize == 1 ? " process" : " processes") +
                           ", but this binary is compiled for " + compiledFor(plan));
    if (options.communicator == "local")
      return Status::error("--communicator local connects threads of one process, but " +
                           environment->launcher + " started " +
                           std::to_string(environment->worldSize) + " processes");
    std::string chosen = shareHost(*environment, get) ? "shm" : "gloo";
    return Launch{options.communicator.empty() ? chosen : options.communicator, *environment};
  }
  if (size > 1)
    return Status::error("this binary is compiled for " + compiledFor(plan) +
                         ", but was started alone: use --ranks " + std::to_string(size) +
                         ", or start it with torchrun, mpirun or srun");
  if (options.communicator.empty() || options.communicator == "local")
    return Launch{"local", {}};
  if (!environment)
    return Status::error("--communicator " + options.communicator +
                         " needs a launcher's environment: torchrun, mpirun, srun, or RANK and "
                         "WORLD_SIZE");
  return Launch{options.communicator, *environment};
}
