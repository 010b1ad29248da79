//===- ChooseProgram.h - Which program a run takes ------------ -*- C++ -*-===//

#ifndef FSDP_RUNTIME_CHOOSEPROGRAM_H
#define FSDP_RUNTIME_CHOOSEPROGRAM_H

#include "Status.h"
#include "comm/Rendezvous.h"
#include "plan/PlanView.h"

#include <optional>
#include <span>

namespace fsdp::rt {

/// "2 ranks (mesh dp=2)".
std::string compiledFor(const PlanView &plan);

/// The binary's program for the number of ranks given by the launcher, by --ranks or by
/// --fake-ranks, else for one rank. If the binary has a single program, returns that; its number of
/// ranks is checked later. Null if the number is not given and there is no program for one rank:
/// help and descriptions need no run. An error names the available numbers of ranks.
Result<const fsdp_plan *> chooseProgram(std::span<const fsdp_plan *const> programs, int argc,
                                        const char *const *argv,
                                        const std::optional<LaunchEnvironment> &environment);

/// The error of a run that was started without a launcher: names the ranks for which the binary is
/// compiled.
Status startedAlone(std::span<const fsdp_plan *const> programs);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CHOOSEPROGRAM_H
