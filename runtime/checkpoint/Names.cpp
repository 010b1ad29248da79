//===- Names.cpp - Names of tensors in files ------------------------------===//

#include "checkpoint/Names.h"

using namespace fsdp::rt;

template <typename T>
static std::vector<std::string> namesOfTensor(const PlanView &plan, const T &tensor) {
  std::vector<std::string> names{plan.string(tensor.name)};
  for (int64_t alias : plan.integers(tensor.first_alias, tensor.num_aliases))
    names.emplace_back(plan.string(static_cast<uint32_t>(alias)));
  return names;
}

std::vector<std::string> fsdp::rt::namesOf(const PlanView &plan, const fsdp_parameter &parameter) {
  return namesOfTensor(plan, parameter);
}

std::vector<std::string> fsdp::rt::namesOf(const PlanView &plan, const fsdp_buffer &buffer) {
  return namesOfTensor(plan, buffer);
}
