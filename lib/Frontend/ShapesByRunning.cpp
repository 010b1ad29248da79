//===- ShapesByRunning.cpp - Shapes from running an operator --------------===//

#include "ShapesByRunning.h"

#include "OutsideOfCapture.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

using namespace fsdp::frontend;
using at::Tensor;
using c10::IValue;

Tensor fsdp::frontend::makeOn(c10::DeviceType device, const Tensor &like) {
  if (!like.defined() || like.device().type() == device)
    return like;
  Tensor made = at::empty_strided(like.sizes(), like.strides(), like.options().device(device));
  return device == at::kMeta ? made : made.zero_();
}

/// Ones on the diagonals of floating-point matrices.
static void fillDiagonals(const Tensor &tensor) {
  if (tensor.dim() > 1 && tensor.is_floating_point())
    tensor.diagonal(0, -2, -1).fill_(1);
}

static void makeTensorsOn(c10::DeviceType device, IValue &value) {
  if (value.isTensor()) {
    value = makeOn(device, value.toTensor());
  } else if (value.isTensorList()) {
    std::vector<Tensor> tensors = value.toTensorVector();
    for (Tensor &tensor : tensors)
      tensor = makeOn(device, tensor);
    value = std::move(tensors);
  } else if (value.isOptionalTensorList()) {
    c10::List<std::optional<Tensor>> tensors;
    for (const std::optional<Tensor> &tensor : value.toOptionalTensorList())
      tensors.push_back(tensor ? std::optional(makeOn(device, *tensor)) : std::nullopt);
    value = std::move(tensors);
  } else if (value.isDevice()) {
    value = c10::Device(device);
  }
}

std::vector<IValue> fsdp::frontend::runOnExample(const c10::OperatorHandle &op,
                                                 std::vector<IValue> arguments) {
  OutsideOfCapture outside;
  for (IValue &argument : arguments) {
    const bool isMade = argument.isTensor() && argument.toTensor().is_meta();
    makeTensorsOn(at::kCPU, argument);
    if (isMade)
      fillDiagonals(argument.toTensor());
  }
  op.callBoxed(&arguments);
  for (IValue &result : arguments)
    makeTensorsOn(at::kMeta, result);
  return arguments;
}

bool fsdp::frontend::mayRunOnExample(const c10::OperatorHandle &op) {
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
