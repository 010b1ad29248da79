//===- ModelCollectives.cpp - Derivatives of the model's collectives ------===//
//
// As torch.distributed.nn.functional derives them: the derivative of a sum over ranks is the sum of
// all ranks' gradients.
//
//===----------------------------------------------------------------------===//

#include "Overrides.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>

using namespace fsdp::frontend;
using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

template <typename Signature, typename... Arguments>
static Tensor call(const char *name, const Arguments &...arguments) {
  at::AutoDispatchBelowADInplaceOrView below;
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>().call(
      arguments...);
}

static Tensor reduceAll(const Tensor &x, std::string_view op) {
  return call<Tensor(const Tensor &, std::string_view)>("fsdpc::all_reduce", x.contiguous(), op);
}
static Tensor gather(const Tensor &x, int64_t ranks) {
  return call<Tensor(const Tensor &, int64_t)>("fsdpc::all_gather", x.contiguous(), ranks);
}
static Tensor reduceRows(const Tensor &x, std::string_view op) {
  return call<Tensor(const Tensor &, std::string_view)>("fsdpc::reduce_scatter", x.contiguous(),
                                                        op);
}

namespace {
struct AllReduce : torch::autograd::Function<AllReduce> {
  static Tensor forward(AutogradContext *context, const Tensor &x, std::string op) {
    context->saved_data["op"] = op;
    return reduceAll(x, op);
  }
  static variable_list backward(AutogradContext *context, const variable_list &gradients) {
    const std::string op = context->saved_data["op"].toStringRef();
    TORCH_CHECK(op != "max", "all_reduce by 'max' has no derivative");
    return {reduceAll(gradients[0], op), Tensor()};
  }
};

struct AllGather : torch::autograd::Function<AllGather> {
  static Tensor forward(AutogradContext *, const Tensor &x, int64_t ranks) {
    return gather(x, ranks);
  }
  static variable_list backward(AutogradContext *, const variable_list &gradients) {
    return {reduceRows(gradients[0], "sum"), Tensor()};
  }
};

struct ReduceScatter : torch::autograd::Function<ReduceScatter> {
  static Tensor forward(AutogradContext *context, const Tensor &x, std::string op) {
    TORCH_CHECK(op == "sum" || !x.requires_grad(), "reduce_scatter by '", op,
                "' has no derivative");
    context->saved_data["ranks"] = x.size(0);
    return reduceRows(x, op);
  }
  static variable_list backward(AutogradContext *context, const variable_list &gradients) {
    return {gather(gradients[0], context->saved_data["ranks"].toInt()), Tensor()};
  }
};
} // namespace

void Overrides::addModelCollectives() {
  collectives.impl("all_reduce", [](const Tensor &x, std::string_view op) {
    return AllReduce::apply(x, std::string(op));
  });
  collectives.impl("all_gather",
                   [](const Tensor &x, int64_t ranks) { return AllGather::apply(x, ranks); });
  collectives.impl("reduce_scatter", [](const Tensor &x, std::string_view op) {
    return ReduceScatter::apply(x, std::string(op));
  });
  collectives.impl("own_part", [](const Tensor &x) {
    TORCH_CHECK(!x.requires_grad(), "own_part has no derivative");
    return call<Tensor(const Tensor &)>("fsdpc::own_part", x.contiguous());
  });
}
