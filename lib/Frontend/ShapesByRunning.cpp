//===- ShapesByRunning.cpp - Shapes that an operator itself shows ---------===//

#include "ShapesByRunning.h"

#include "OutsideOfCapture.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

using namespace fsdp::frontend;
using at::Tensor;
using c10::IValue;

static Tensor makeReal(const Tensor &tensor) {
  if (!tensor.defined() || !tensor.is_meta())
    return tensor;
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kCPU))
      .zero_();
}

static Tensor makeMeta(const Tensor &tensor) {
  if (!tensor.defined())
    return tensor;
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta));
}

static void replaceTensors(IValue &value, Tensor (*make)(const Tensor &)) {
  if (value.isTensor()) {
    value = make(value.toTensor());
  } else if (value.isTensorList()) {
    std::vector<Tensor> tensors = value.toTensorVector();
    for (Tensor &tensor : tensors)
      tensor = make(tensor);
    value = std::move(tensors);
  } else if (value.isOptionalTensorList()) {
    c10::List<std::optional<Tensor>> tensors;
    for (const std::optional<Tensor> &tensor : value.toOptionalTensorList())
      tensors.push_back(tensor ? std::optional(make(*tensor)) : std::nullopt);
    value = std::move(tensors);
  } else if (value.isDevice() && make == &makeReal) {
    value = c10::Device(at::kCPU);
  }
}

std::vector<IValue> fsdp::frontend::runOnZeros(const c10::OperatorHandle &op,
                                               std::vector<IValue> arguments) {
  OutsideOfCapture outside;
  for (IValue &argument : arguments)
    replaceTensors(argument, &makeReal);
  op.callBoxed(&arguments);
  for (IValue &result : arguments)
    replaceTensors(result, &makeMeta);
  return arguments;
}

bool fsdp::frontend::mayRunOnZeros(const c10::OperatorHandle &op) {
  const c10::FunctionSchema &schema = op.schema();
  for (at::Tag tag : {at::Tag::dynamic_output_shape, at::Tag::data_dependent_output,
                      at::Tag::nondeterministic_seeded})
    if (op.hasTag(tag))
      return false;
  if (schema.is_mutable() || schema.returns().empty())
    return false;
  for (const c10::Argument &result : schema.returns())
    if (result.alias_info() || (result.type()->kind() != c10::TypeKind::TensorType &&
                                !result.type()->isSubtypeOf(*c10::ListType::ofTensors())))
      return false;
  return true;
}
