//===- ValidateProgram.h - Steps over one state ------------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_VALIDATEPROGRAM_H
#define FSDP_RUNTIME_VALIDATEPROGRAM_H

#include "plan/PlanView.h"

namespace fsdp::rt {

/// validatePlan() of a plan that trains and of those that follow it (fsdp_plan::next): others that
/// train, and then perhaps some that evaluate; and that all have the same state at the same places.
Status validateProgram(const fsdp_plan &first);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_VALIDATEPROGRAM_H
