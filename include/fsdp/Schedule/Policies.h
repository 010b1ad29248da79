//===- Policies.h - Orders that need no search -------------------*- C++ -*-===//
//
// FSDP2's order of issue, event for event, and everything as soon as memory allows: what a search
// begins with.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_POLICIES_H
#define FSDP_SCHEDULE_POLICIES_H

#include "fsdp/Schedule/ListSchedule.h"

#include <string_view>

namespace fsdp::schedule {

enum class Policy : uint8_t { Fsdp2, Asap };

std::string_view getName(Policy policy); // "fsdp2", "asap"

/// The policy's plan; none if it fits no plan under the problem's cap. `Fsdp2`: gathers of the
/// backward one use ahead, one reduction pending, what `Group::keep` says (Free: gather again);
/// gathers of the forward where they are used, or where the host runs ahead up to two uses ahead:
/// torch's stream of gathers waits, before the gather of a use, for what precedes the last use but
/// one (wait_for_unshard). Under a cap that this order exceeds, its decisions through the list
/// scheduler.
std::optional<Plan> planByPolicy(const Problem &problem, Policy policy);

/// The decisions behind it, as starts for a search.
Decisions decideByPolicy(const Problem &problem, Policy policy);

} // namespace fsdp::schedule

#endif // FSDP_SCHEDULE_POLICIES_H
