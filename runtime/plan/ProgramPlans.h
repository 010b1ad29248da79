//===- ProgramPlans.h - The plans of a program -------------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_PROGRAMPLANS_H
#define FSDP_RUNTIME_PROGRAMPLANS_H

#include "plan/PlanView.h"

#include <vector>

namespace fsdp::rt {

/// Those that train, one for each shape of samples, from `first` on.
inline std::vector<PlanView> trainingPlans(const fsdp_plan &first) {
  std::vector<PlanView> plans;
  for (const fsdp_plan *plan = &first; plan && plan->step_kind == FSDP_TRAINING; plan = plan->next)
    plans.emplace_back(*plan);
  return plans;
}

/// The one that evaluates, the last; null if there is none.
inline const fsdp_plan *evaluationPlan(const fsdp_plan &first) {
  const fsdp_plan *plan = &first;
  while (plan && plan->step_kind == FSDP_TRAINING)
    plan = plan->next;
  return plan;
}

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_PROGRAMPLANS_H
