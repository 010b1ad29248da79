//===- Names.h - Names of tensors in files -----------------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_NAMES_H
#define FSDP_RUNTIME_NAMES_H

#include "plan/PlanView.h"

#include <vector>

namespace fsdp::rt {

/// A parameter's name, then its aliases.
std::vector<std::string> parameterNames(const PlanView &plan, const fsdp_parameter &parameter);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_NAMES_H
