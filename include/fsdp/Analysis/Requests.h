//===- Requests.h - What is asked of a group and not decided yet -*- C++ -*-===//

#ifndef FSDP_ANALYSIS_REQUESTS_H
#define FSDP_ANALYSIS_REQUESTS_H

#include "fsdp/Analysis/Step.h"

namespace fsdp {

/// The dtype that the user asks for where the group travels in another one and no decision says
/// why: "asks for param_dtype 'bf16', but is gathered as 'f32' ..."; none: there is none.
std::optional<std::string> explainOpenDtypes(Step &step, GroupOp group);

/// The first request of the user for a sharded group that is decided otherwise, or not at all,
/// while no decision says why: of dtypes, of recomputation and of the place of optimizer state.
std::optional<std::string> explainOpen(Step &step, GroupOp group);

/// Likewise of optimizer state that is to be offloaded, and stays in the arena.
std::optional<std::string> explainOpenOffload(GroupOp group);
/// The same of activations that are to be on the host.
std::optional<std::string> explainOpenActivationOffload(GroupOp group);

} // namespace fsdp

#endif // FSDP_ANALYSIS_REQUESTS_H
