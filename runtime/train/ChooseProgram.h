//===- ChooseProgram.h - Which mesh a run is of ------------------*- C++ -*-===//

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

/// Of a binary's programs the one for as many ranks as the launcher started, --ranks or
/// --fake-ranks says, or one if neither does. Of one program that one: whether it fits is seen
/// later. Null where nothing says how many and there is none for a single rank: help and
/// descriptions need no run. An error names the ranks that there are.
Result<const fsdp_plan *> chooseProgram(std::span<const fsdp_plan *const> programs, int argc,
                                        const char *const *argv,
                                        const std::optional<LaunchEnvironment> &environment);

/// For a run that was started alone: what the binary is compiled for.
Status startedAlone(std::span<const fsdp_plan *const> programs);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CHOOSEPROGRAM_H
