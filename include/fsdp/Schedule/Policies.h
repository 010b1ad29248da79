//===- Policies.h - Orders that need no search -------------------*- C++ -*-===//
//
// The plans with which a search begins: FSDP2's order of issue, event for event, and a plan that
// launches each collective as soon as memory allows.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_POLICIES_H
#define FSDP_SCHEDULE_POLICIES_H

#include "fsdp/Schedule/ListSchedule.h"

#include <string_view>

namespace fsdp::schedule {

enum class Policy : uint8_t { Fsdp2, Asap };

std::string_view getName(Policy policy); // "fsdp2", "asap"

/// The policy's plan; nullopt if no plan of the policy keeps the problem's cap.
///
/// `Fsdp2` keeps the copies that `Group::keep` demands (Free: gather again) and has at most one
/// pending reduction. It launches a gather of the backward one use ahead, and a gather of the
/// forward at its use. On GPUs it launches a gather of the forward up to two uses ahead: before the
/// gather of a use, torch's stream of gathers waits for the computation that precedes the last use
/// but one (wait_for_unshard). There all collectives share a lane, too: those of a process group
/// have one NCCL communicator, which runs them one after another. If this order exceeds the cap,
/// the plan is the list schedule of the policy's decisions.
std::optional<Plan> planByPolicy(const Problem &problem, Policy policy);

/// The policy's decisions, from which a search may start.
Decisions decideByPolicy(const Problem &problem, Policy policy);

} // namespace fsdp::schedule

#endif // FSDP_SCHEDULE_POLICIES_H
