//===- Launch.h - How the ranks of a run come to be --------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_LAUNCH_H
#define FSDP_RUNTIME_LAUNCH_H

#include "comm/Rendezvous.h"
#include "train/TrainOptions.h"

namespace fsdp::rt {

/// Either all ranks are threads of this process ("local"), or this process is one rank of several,
/// or it is alone and others are only "fake".
struct Launch {
  std::string backend;           // "local", "shm", "gloo", "fake": between the ranks' hosts
  LaunchEnvironment environment; // of this process, unless local or fake
  bool oneHost = true;           // all ranks run on this host
};

/// Decides from the flags and the environment, and compares with the number of ranks for which the
/// plan is compiled. Errors name both values.
Result<Launch> decideLaunch(const TrainOptions &options,
                            const std::optional<LaunchEnvironment> &environment,
                            const GetEnvironment &get, const PlanView &plan);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_LAUNCH_H
