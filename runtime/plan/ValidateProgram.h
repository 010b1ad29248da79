//===- ValidateProgram.h - Checks that plans share one state -- -*- C++ -*-===//

#ifndef FSDP_RUNTIME_VALIDATEPROGRAM_H
#define FSDP_RUNTIME_VALIDATEPROGRAM_H

#include "plan/PlanView.h"

namespace fsdp::rt {

/// Runs validatePlan() on a training plan and the plans that follow it (fsdp_plan::next): further
/// training plans, then evaluation plans, if any. Also checks that all plans have the same state at
/// the same offsets.
Status validateProgram(const fsdp_plan &first);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_VALIDATEPROGRAM_H
