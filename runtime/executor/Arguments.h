//===- Arguments.h - From a plan's arguments to torch's ----------*- C++ -*-===//

#ifndef FSDP_RUNTIME_ARGUMENTS_H
#define FSDP_RUNTIME_ARGUMENTS_H

#include "Status.h"
#include "plan/PlanView.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <span>
#include <vector>

namespace fsdp::rt {

/// The operator that an entry calls. The error names it.
Result<c10::OperatorHandle> findOperator(const PlanView &view, const fsdp_entry &entry);

/// The arguments of a call, converted to the types of the schema: a number in place of a tensor
/// becomes a wrapped number; dtypes, layouts and memory formats become integers; missing trailing
/// arguments take the schema's defaults. `tensors` are the plan's values, on `device` of `rank`.
/// The error names the operator and the argument.
Result<std::vector<c10::IValue>> bindArguments(const PlanView &view, const fsdp_entry &entry,
                                               const c10::OperatorHandle &op,
                                               std::span<const at::Tensor> tensors,
                                               c10::Device device, unsigned rank);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_ARGUMENTS_H
