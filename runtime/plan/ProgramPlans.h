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

/// Those that evaluate, one for each shape of samples; none if the program does not.
inline std::vector<PlanView> evaluationPlans(const fsdp_plan &first) {
  std::vector<PlanView> plans;
  for (const fsdp_plan *plan = &first; plan; plan = plan->next)
    if (plan->step_kind == FSDP_EVALUATION)
      plans.emplace_back(*plan);
  return plans;
}

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_PROGRAMPLANS_H
