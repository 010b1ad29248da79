//===- ProgramPlans.h - The plans of a program -------------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_PROGRAMPLANS_H
#define FSDP_RUNTIME_PROGRAMPLANS_H

#include "plan/PlanView.h"

#include <vector>

namespace fsdp::rt {

/// The program's plans of one kind: one for each shape of samples. `first`: the program's first
/// plan.
inline std::vector<PlanView> plansOf(const fsdp_plan &first, fsdp_step_kind kind) {
  std::vector<PlanView> plans;
  for (const fsdp_plan *plan = &first; plan; plan = plan->next)
    if (plan->step_kind == static_cast<uint32_t>(kind))
      plans.emplace_back(*plan);
  return plans;
}

/// The training plans.
inline std::vector<PlanView> trainingPlans(const fsdp_plan &first) {
  return plansOf(first, FSDP_TRAINING);
}

/// The evaluation plans, if any.
inline std::vector<PlanView> evaluationPlans(const fsdp_plan &first) {
  return plansOf(first, FSDP_EVALUATION);
}

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_PROGRAMPLANS_H
