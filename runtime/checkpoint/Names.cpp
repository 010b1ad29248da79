//===- Names.cpp - Names of tensors in files ------------------------------===//

#include "checkpoint/Names.h"

using namespace fsdp::rt;

std::vector<std::string> fsdp::rt::parameterNames(const PlanView &plan,
                                                  const fsdp_parameter &parameter) {
  std::vector<std::string> names{plan.string(parameter.name)};
  for (int64_t alias : plan.integers(parameter.first_alias, parameter.num_aliases))
    names.emplace_back(plan.string(static_cast<uint32_t>(alias)));
  return names;
}
