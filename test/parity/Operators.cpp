//===- Operators.cpp - Operators of a library of its own -------------------===//
//
// fsdp_test::scaled_relu with all that a training step needs: a kernel, a meta kernel, and an
// autograd formula whose backward is an operator, too. fsdp_test::doubled has no autograd formula.
// The result of fsdp_test::turned has other strides than its meta kernel says, those of
// fsdp_test::compared have another dtype; neither takes part in the backward.
//
//===----------------------------------------------------------------------===//

#include <ATen/Operators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/le.h>
#include <ATen/ops/mul.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

static Tensor scaledRelu(const Tensor &x, double factor) {
  Tensor input = x.contiguous(), result = at::empty_like(input);
  const float *from = input.const_data_ptr<float>();
  float *to = result.mutable_data_ptr<float>();
  for (int64_t i = 0; i < input.numel(); ++i)
    to[i] = from[i] > 0 ? from[i] * static_cast<float>(factor) : 0;
  return result;
}

static Tensor scaledReluBackward(const Tensor &gradient, const Tensor &x, double factor) {
  Tensor input = x.contiguous(), of = gradient.contiguous(), result = at::empty_like(input);
  const float *from = input.const_data_ptr<float>(), *given = of.const_data_ptr<float>();
  float *to = result.mutable_data_ptr<float>();
  for (int64_t i = 0; i < input.numel(); ++i)
    to[i] = from[i] > 0 ? given[i] * static_cast<float>(factor) : 0;
  return result;
}

static Tensor shapeOf(const Tensor &x, double) {
  return at::empty_like(x, {}, at::MemoryFormat::Contiguous);
}

static Tensor shapeOfBackward(const Tensor &, const Tensor &x, double factor) {
  return shapeOf(x, factor);
}

static Tensor callScaledRelu(const Tensor &x, double factor) {
  static auto op = c10::Dispatcher::singleton()
                       .findSchemaOrThrow("fsdp_test::scaled_relu", "")
                       .typed<Tensor(const Tensor &, double)>();
  return op.call(x, factor);
}

static Tensor callBackward(const Tensor &gradient, const Tensor &x, double factor) {
  static auto op = c10::Dispatcher::singleton()
                       .findSchemaOrThrow("fsdp_test::scaled_relu_backward", "")
                       .typed<Tensor(const Tensor &, const Tensor &, double)>();
  return op.call(gradient, x, factor);
}

namespace {
struct ScaledRelu : torch::autograd::Function<ScaledRelu> {
  static Tensor forward(AutogradContext *context, const Tensor &x, double factor) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({x});
    context->saved_data["factor"] = factor;
    return callScaledRelu(x, factor);
  }
  static tensor_list backward(AutogradContext *context, const tensor_list &gradients) {
    const Tensor x = context->get_saved_variables()[0];
    return {callBackward(gradients[0], x, context->saved_data["factor"].toDouble()), Tensor()};
  }
};
} // namespace

static Tensor differentiable(const Tensor &x, double factor) {
  return ScaledRelu::apply(x, factor);
}

static Tensor doubled(const Tensor &x) { return at::mul(x, 2); }
static Tensor shapeOfDoubled(const Tensor &x) { return at::empty_like(x); }

/// The columns of a matrix, one behind the other.
static Tensor turned(const Tensor &x) { return at::mul(x.t().contiguous(), 3).t(); }
static Tensor shapeOfTurned(const Tensor &x) {
  return at::empty_like(x, {}, at::MemoryFormat::Contiguous);
}

/// Where it is above 0, and where it is not.
static tensor_list compared(const Tensor &x) { return {at::gt(x, 0), at::le(x, 0)}; }
static tensor_list shapesOfCompared(const Tensor &x) {
  return {shapeOfTurned(x), shapeOfTurned(x)};
}

TORCH_LIBRARY(fsdp_test, library) {
  library.def("scaled_relu(Tensor x, float factor) -> Tensor");
  library.def("scaled_relu_backward(Tensor gradient, Tensor x, float factor) -> Tensor");
  library.def("doubled(Tensor x) -> Tensor");
  library.def("turned(Tensor x) -> Tensor");
  library.def("compared(Tensor x) -> Tensor[]");
}

TORCH_LIBRARY_IMPL(fsdp_test, CPU, library) {
  library.impl("scaled_relu", scaledRelu);
  library.impl("scaled_relu_backward", scaledReluBackward);
  library.impl("doubled", doubled);
  library.impl("turned", turned);
  library.impl("compared", compared);
}

TORCH_LIBRARY_IMPL(fsdp_test, Meta, library) {
  library.impl("scaled_relu", shapeOf);
  library.impl("scaled_relu_backward", shapeOfBackward);
  library.impl("doubled", shapeOfDoubled);
  library.impl("turned", shapeOfTurned);
  library.impl("compared", shapesOfCompared);
}

TORCH_LIBRARY_IMPL(fsdp_test, Autograd, library) { library.impl("scaled_relu", differentiable); }
