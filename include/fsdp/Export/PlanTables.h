//===- PlanTables.h - A plan in memory ---------------------------*- C++ -*-===//

#ifndef FSDP_EXPORT_PLANTABLES_H
#define FSDP_EXPORT_PLANTABLES_H

#include "fsdp/Plan/Abi.h"

#include <string>
#include <vector>

namespace fsdp {

/// The tables of Abi.h and the memory that holds them.
struct PlanTables {
  /// All other fields; `getPlan` sets counts and pointers.
  fsdp_plan header = {};
  std::vector<fsdp_value> values;
  std::vector<fsdp_argument> arguments;
  std::vector<fsdp_entry> entries;
  std::vector<fsdp_input> inputs;
  std::vector<fsdp_buffer> buffers;
  std::vector<fsdp_constant> constants;
  std::vector<fsdp_group> groups;
  std::vector<fsdp_parameter> parameters;
  std::vector<fsdp_piece> pieces;
  std::vector<int64_t> integers;
  std::vector<fsdp_optimizer> optimizerGroups;
  std::vector<fsdp_communicator> communicators;
  std::vector<fsdp_kernel> kernels;
  /// LLVM's bitcode of the kernels' functions, and their names by kernel and level.
  std::string kernelCode;
  std::vector<std::string> kernelFunctions;
  std::string gpuCode; // the kernels' PTX; "": none
  std::string strings;
  std::vector<unsigned char> data;

  /// The plan as the runtime sees it. It points into this object and is valid while the object is
  /// unchanged.
  fsdp_plan getPlan() const {
    fsdp_plan plan = header;
    plan.abi_version = FSDP_PLAN_ABI_VERSION;
    plan.struct_bytes = sizeof(fsdp_plan);
    auto count = [](const auto &table) { return static_cast<uint32_t>(table.size()); };
    plan.num_values = count(values);
    plan.num_arguments = count(arguments);
    plan.num_entries = count(entries);
    plan.num_inputs = count(inputs);
    plan.num_buffers = count(buffers);
    plan.num_constants = count(constants);
    plan.num_groups = count(groups);
    plan.num_parameters = count(parameters);
    plan.num_pieces = count(pieces);
    plan.num_integers = count(integers);
    plan.num_optimizer_groups = count(optimizerGroups);
    plan.num_communicators = count(communicators);
    plan.num_kernels = count(kernels);
    plan.num_string_bytes = strings.size();
    plan.num_data_bytes = data.size();
    plan.num_gpu_code_bytes = gpuCode.empty() ? 0 : gpuCode.size() + 1;
    plan.values = values.data();
    plan.arguments = arguments.data();
    plan.entries = entries.data();
    plan.inputs = inputs.data();
    plan.buffers = buffers.data();
    plan.constants = constants.data();
    plan.groups = groups.data();
    plan.parameters = parameters.data();
    plan.pieces = pieces.data();
    plan.integers = integers.data();
    plan.optimizer_groups = optimizerGroups.data();
    plan.communicators = communicators.data();
    plan.kernels = kernels.data();
    plan.strings = strings.data();
    plan.data = data.data();
    plan.gpu_code = gpuCode.c_str();
    plan.kernel_functions = nullptr;
    plan.next = nullptr;
    return plan;
  }
};

/// The plans of a program as the runtime sees them, each pointing to the next one. They point into
/// `tables` and into the result.
inline std::vector<fsdp_plan> linkPlans(const std::vector<PlanTables> &tables) {
  std::vector<fsdp_plan> plans;
  for (const PlanTables &table : tables)
    plans.push_back(table.getPlan());
  for (size_t i = 0; i + 1 < plans.size(); ++i)
    plans[i].next = &plans[i + 1];
  return plans;
}

} // namespace fsdp

#endif // FSDP_EXPORT_PLANTABLES_H
