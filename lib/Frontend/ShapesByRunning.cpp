//===- ShapesByRunning.cpp - Shapes that an operator itself shows ---------===//
//
// Operators for which neither torch nor this library has a rule: the CPU's kernel runs once on
// zeros.
//
//===----------------------------------------------------------------------===//

#include "MetaKernels.h"
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

static void runOnZeros(const c10::OperatorHandle &op, c10::DispatchKeySet,
                       torch::jit::Stack *stack) {
  OutsideOfCapture outside;
  for (size_t i = stack->size() - op.schema().arguments().size(); i < stack->size(); ++i)
    replaceTensors((*stack)[i], &makeReal);
  op.callBoxed(stack);
  for (size_t i = stack->size() - op.schema().returns().size(); i < stack->size(); ++i)
    replaceTensors((*stack)[i], &makeMeta);
}

/// True where zeros have results as any operands have: functions that make new tensors, and whose
/// results' sizes do not depend on what these hold.
static bool areShapesIndependent(const c10::OperatorHandle &op) {
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

void MetaKernels::addByRunning() {
  for (const c10::OperatorName &name : c10::Dispatcher::singleton().getAllOpNames()) {
    constexpr std::string_view space = "aten::";
    auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op || !name.name.starts_with(space) || !isMissing(*op) ||
        !op->hasKernelForDispatchKey(c10::DispatchKey::CPU) || !areShapesIndependent(*op))
      continue;
    std::string own = name.name.substr(space.size());
    if (!name.overload_name.empty())
      own += "." + name.overload_name;
    library.impl(own.c_str(), torch::CppFunction::makeFromBoxedFunction<&runOnZeros>());
  }
}

static Tensor shuffle(const Tensor &x, std::initializer_list<int64_t> last) {
  std::vector<int64_t> sizes(x.sizes().begin(), x.sizes().end() - 3);
  sizes.insert(sizes.end(), last);
  return at::empty(sizes, x.options().memory_format(x.suggest_memory_format()));
}

/// Composites elsewhere; on a CPU with kernels that keep channels last.
void MetaKernels::addPixelShuffles() {
  replace(
      "pixel_shuffle", +[](const Tensor &x, int64_t factor) {
        return shuffle(x,
                       {x.size(-3) / (factor * factor), x.size(-2) * factor, x.size(-1) * factor});
      });
  replace(
      "pixel_unshuffle", +[](const Tensor &x, int64_t factor) {
        return shuffle(x, {x.size(-3) * factor * factor, x.size(-2) / factor, x.size(-1) / factor});
      });
}
