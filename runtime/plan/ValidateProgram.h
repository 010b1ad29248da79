//===- ValidateProgram.h - Steps over one state ------------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_VALIDATEPROGRAM_H
#define FSDP_RUNTIME_VALIDATEPROGRAM_H

#include "plan/PlanView.h"

namespace fsdp::rt {

/// validatePlan() of a plan that trains and of the one that may follow it (fsdp_plan::next), which
/// evaluates; and that both have the same state at the same places.
Status validateProgram(const fsdp_plan &training);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_VALIDATEPROGRAM_H
