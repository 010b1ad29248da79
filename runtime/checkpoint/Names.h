//===- Names.h - Names of tensors in files -----------------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_NAMES_H
#define FSDP_RUNTIME_NAMES_H

#include "plan/PlanView.h"

#include <vector>

namespace fsdp::rt {

/// The tensor's name, then its aliases.
std::vector<std::string> namesOf(const PlanView &plan, const fsdp_parameter &parameter);
std::vector<std::string> namesOf(const PlanView &plan, const fsdp_buffer &buffer);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_NAMES_H
