//===- Launch.cpp - How the ranks of a run are started --------------------===//

#include "train/Launch.h"
#include "train/ChooseProgram.h"

#include <unistd.h>

using namespace fsdp::rt;

Result<Launch> fsdp::rt::decideLaunch(const TrainOptions &options,
                                      const std::optional<LaunchEnvironment> &environment,
                                      const GetEnvironment &get, const PlanView &plan) {
  unsigned size = plan.tables().world_size;
  bool launched = environment && environment->worldSize > 1;
  if (options.communicator == "fake") {
    if (launched)
      return Status::error("--communicator fake needs no peers, but " + environment->launcher +
                           " started " + std::to_string(environment->worldSize) + " processes");
    return Launch{"fake", {}, true};
  }
  // NCCL needs a communicator between the hosts, which is chosen as without devices.
  std::string wanted = options.communicator == "nccl" ? "" : options.communicator;
  if (options.ranks) {
    std::string flag = "--ranks " + std::to_string(*options.ranks);
    if (launched)
      return Status::error(flag + " runs the ranks as threads of one process, but " +
                           environment->launcher + " started " +
                           std::to_string(environment->worldSize) + " processes");
    if (*options.ranks != size)
      return Status::error(flag + ", but this binary is compiled for " + compiledFor(plan));
    return Launch{"local", {}, true};
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
    bool oneHost = shareHost(*environment, get);
    std::string chosen = oneHost ? "shm" : "gloo";
    return Launch{wanted.empty() ? chosen : wanted, *environment, oneHost};
  }
  if (size > 1)
    return Status::error("this binary is compiled for " + compiledFor(plan) +
                         ", but was started alone: use --ranks " + std::to_string(size) +
                         ", or start it with torchrun, mpirun or srun");
  if (wanted.empty() || wanted == "local")
    return Launch{"local", {}, true};
  if (!environment)
    return Status::error("--communicator " + options.communicator +
                         " needs a launcher's environment: torchrun, mpirun, srun, or RANK and "
                         "WORLD_SIZE");
  return Launch{wanted, *environment, true};
}
