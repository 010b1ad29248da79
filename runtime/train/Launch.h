//===- Launch.h - How the ranks of a run are started ---------- -*- C++ -*-===//

#ifndef FSDP_RUNTIME_LAUNCH_H
#define FSDP_RUNTIME_LAUNCH_H

#include "comm/Rendezvous.h"
#include "train/TrainOptions.h"

namespace fsdp::rt {

/// How a run is started: all ranks are threads of this process ("local"), or this process is one
/// rank of several, or it is alone and the others are "fake".
struct Launch {
  std::string backend;           // "local", "shm", "gloo", "fake": between the ranks' hosts
  LaunchEnvironment environment; // unless local or fake
  bool oneHost = true;           // all ranks run on this host
};

/// Decides by the flags and the environment, and checks the number of ranks against the plan's.
/// Errors name both values.
Result<Launch> decideLaunch(const TrainOptions &options,
                            const std::optional<LaunchEnvironment> &environment,
                            const GetEnvironment &get, const PlanView &plan);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_LAUNCH_H
