//===- InPlaceStrides.cpp - Layouts of in-place results -------------------===//

#include "InPlaceStrides.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/ops/copy.h>

using namespace fsdp::frontend;
using at::Tensor;
namespace functional = at::functionalization::impl;

/// In-place operators without tensor lists whose functional form ignores the strides of the changed
/// tensor. test/Frontend/random_modules.py draws several of them.
static constexpr const char *kOperators[] = {
    "masked_fill_.Scalar",
    "masked_fill_.Tensor",
    "masked_scatter_",
    "index_add_",
    "index_copy_",
    "scatter_.src",
    "scatter_.value",
    "scatter_.reduce",
    "scatter_.value_reduce",
    "scatter_add_",
    "scatter_reduce_.two",
    "tril_",
    "triu_",
    "cumsum_",
    "cumprod_",
    "addmm_",
    "addmv_",
    "addbmm_",
    "baddbmm_",
    "renorm_",
};

/// The current value of a tensor of the program.
static Tensor unwrap(const Tensor &tensor) {
  if (!tensor.defined() || !functional::isFunctionalTensor(tensor))
    return tensor;
  functional::sync(tensor);
  return functional::from_functional_tensor(tensor);
}

static c10::OperatorHandle findFunctional(const c10::OperatorName &inPlace) {
  std::string name = inPlace.name;
  name.pop_back(); // the trailing underscore
  return c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(),
                                                        inPlace.overload_name.c_str());
}

static void runOutOfPlace(const c10::OperatorHandle &op, c10::DispatchKeySet,
                          torch::jit::Stack *stack) {
  size_t base = stack->size() - op.schema().arguments().size();
  Tensor self = (*stack)[base].toTensor();
  torch::jit::Stack arguments(stack->begin() + static_cast<std::ptrdiff_t>(base), stack->end());
  for (c10::IValue &argument : arguments)
    if (argument.isTensor())
      argument = unwrap(argument.toTensor());
  Tensor before = arguments.front().toTensor();
  {
    at::AutoDispatchSkipFunctionalize below;
    findFunctional(op.operator_name()).callBoxed(&arguments);
    Tensor after = arguments.front().toTensor();
    functional::replace_(self,
                         after.strides() == before.strides() ? after : at::copy(before, after));
  }
  functional::commit_update(self);
  functional::sync(self);
  stack->resize(base);
  stack->emplace_back(std::move(self));
}

namespace {
struct Silence : c10::WarningHandler {
  void process(const c10::Warning &) override {}
};
} // namespace

InPlaceStrides::InPlaceStrides() {
  // torch warns that these operators have kernels there already.
  Silence silence;
  c10::WarningUtils::WarningHandlerGuard quiet(&silence);
  for (const char *name : kOperators)
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&runOutOfPlace>());
}
