//===- Requests.h - User requests that are not met --------------*- C++ -*-===//

#ifndef FSDP_ANALYSIS_REQUESTS_H
#define FSDP_ANALYSIS_REQUESTS_H

#include "fsdp/Analysis/Step.h"

namespace fsdp {

/// A dtype that the user requests and the group's collectives do not use, without a decision that
/// gives the reason: "asks for param_dtype 'bf16', but is gathered as 'f32' ..."; else nullopt.
std::optional<std::string> explainOpenDtypes(Step &step, GroupOp group);

/// The first user request for a sharded group that is not met, without a decision that gives the
/// reason: of dtypes, of recomputation, of optimizer state on the host.
std::optional<std::string> explainOpen(Step &step, GroupOp group);

/// Likewise for optimizer state that should be offloaded and is in the arena.
std::optional<std::string> explainOpenOffload(GroupOp group);
/// Likewise for activations that should be on the host.
std::optional<std::string> explainOpenActivationOffload(GroupOp group);

} // namespace fsdp

#endif // FSDP_ANALYSIS_REQUESTS_H
