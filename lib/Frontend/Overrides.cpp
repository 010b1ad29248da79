//===- Overrides.cpp - Which form of fused operators is recorded ----------===//

#include "Overrides.h"

#include "fsdp/Frontend/Capture.h"

#include <ATen/SDPBackend.h>
#include <ATen/ops/_fused_sdp_choice_native.h>
#include <ATen/ops/_native_batch_norm_legit.h>
#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/conj_physical.h>
#include <ATen/ops/cumprod.h>
#include <ATen/ops/cumprod_backward.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_dropout.h>
#include <ATen/ops/native_group_norm.h>
#include <ATen/ops/native_group_norm_backward.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>

using namespace fsdp::frontend;
using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

static Tensor dropout(const Tensor &x, double p, bool train) {
  return train && p > 0 ? std::get<0>(at::native_dropout(x, p, true)) : x;
}

static Tensor batchNorm(const Tensor &x, const OptionalTensor &weight, const OptionalTensor &bias,
                        const OptionalTensor &mean, const OptionalTensor &variance, bool training,
                        double momentum, double eps, bool) {
  // The schema of native_batch_norm does not declare its writes to the running statistics.
  if (training && mean && mean->defined()) {
    Tensor runningMean = *mean, runningVariance = *variance;
    return std::get<0>(at::_native_batch_norm_legit(x, weight, bias, runningMean, runningVariance,
                                                    training, momentum, eps));
  }
  return std::get<0>(
      at::native_batch_norm(x, weight, bias, mean, variance, training, momentum, eps));
}

namespace {
/// torch's composite and its derivative check the device: on a CPU tensors may be channels-last.
struct GroupNorm : torch::autograd::Function<GroupNorm> {
  static Tensor forward(torch::autograd::AutogradContext *context, const Tensor &x,
                        const OptionalTensor &weight, const OptionalTensor &bias, int64_t groups,
                        double eps) {
    int64_t batch = x.size(0), channels = x.size(1), inner = x.numel() / (batch * channels);
    auto [y, mean, rstd] =
        at::native_group_norm(x, weight, bias, batch, channels, inner, groups, eps);
    context->save_for_backward({x, weight.value_or(Tensor()), mean, rstd});
    context->saved_data["groups"] = groups;
    auto needs = [](const OptionalTensor &t) { return t && t->defined() && t->requires_grad(); };
    context->saved_data["mask"] = std::vector<bool>{x.requires_grad(), needs(weight), needs(bias)};
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext *context,
                                                 const torch::autograd::variable_list &gradients) {
    auto saved = context->get_saved_variables();
    const Tensor &x = saved[0];
    int64_t batch = x.size(0), channels = x.size(1), inner = x.numel() / (batch * channels);
    auto mask = context->saved_data["mask"].toBoolList();
    auto [ofX, ofWeight, ofBias] = at::native_group_norm_backward(
        gradients[0].contiguous(x.suggest_memory_format()), x, saved[2], saved[3],
        saved[1].defined() ? OptionalTensor(saved[1]) : std::nullopt, batch, channels, inner,
        context->saved_data["groups"].toInt(), {mask[0], mask[1], mask[2]});
    return {ofX, ofWeight, ofBias, Tensor(), Tensor()};
  }
};

/// The derivative divides if no factor is zero: it chooses its formula when it runs, and is kept
/// whole. On meta torch takes the longer formula, which unrolls the dimension.
struct CumulativeProduct : torch::autograd::Function<CumulativeProduct> {
  static Tensor forward(torch::autograd::AutogradContext *context, const Tensor &x, int64_t dim,
                        std::optional<at::ScalarType> dtype) {
    at::AutoDispatchBelowADInplaceOrView below;
    Tensor y = at::cumprod(x, dim, dtype);
    context->save_for_backward({x, y});
    context->saved_data["dim"] = dim;
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext *context,
                                                 const torch::autograd::variable_list &gradients) {
    auto saved = context->get_saved_variables();
    Tensor gradient = gradients[0].to(saved[0].scalar_type());
    if (gradient.numel() > 1) {
      at::AutoDispatchBelowADInplaceOrView below; // it is a composite, which is recorded whole
      gradient = at::cumprod_backward(gradient.contiguous(), saved[0].contiguous(),
                                      context->saved_data["dim"].toInt(), saved[1].contiguous());
    }
    return {gradient, Tensor(), Tensor()};
  }
};
} // namespace

static Tensor cumprod(const Tensor &x, int64_t dim, std::optional<at::ScalarType> dtype) {
  return CumulativeProduct::apply(x, dim, dtype);
}

static Tensor groupNorm(const Tensor &x, int64_t groups, const OptionalTensor &weight,
                        const OptionalTensor &bias, double eps, bool) {
  auto contiguous = [](const OptionalTensor &tensor) {
    return tensor && tensor->defined() ? OptionalTensor(tensor->contiguous()) : std::nullopt;
  };
  return GroupNorm::apply(x.contiguous(x.suggest_memory_format()), contiguous(weight),
                          contiguous(bias), groups, eps);
}

OptionalTensor fsdp::frontend::makeAdditiveMask(const OptionalTensor &mask, at::ScalarType dtype) {
  if (!mask || !mask->defined() || mask->scalar_type() != at::kBool)
    return mask;
  Tensor additive = at::zeros_like(*mask, mask->options().dtype(dtype));
  additive.masked_fill_(mask->logical_not(), -std::numeric_limits<double>::infinity());
  return additive;
}

static Tensor attentionForCpu(const Tensor &q, const Tensor &k, const Tensor &v,
                              const OptionalTensor &mask, double dropout, bool isCausal,
                              std::optional<double> scale, bool enableGqa) {
  OptionalTensor additive = makeAdditiveMask(mask, q.scalar_type());
  // The choice of eager mode on a CPU, which depends only on sizes, strides and dtypes.
  auto choice = static_cast<at::SDPBackend>(
      at::native::_fused_sdp_choice_cpp(q, k, v, mask, dropout, isCausal, scale, enableGqa));
  if (choice == at::SDPBackend::flash_attention)
    return std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, dropout, isCausal,
                                                                       additive, scale));
  return std::get<0>(at::_scaled_dot_product_attention_math(q, k, v, additive, dropout, isCausal,
                                                            {}, scale, enableGqa));
}

/// In eager mode `conj` is a view with a flag that each operator resolves; plans have no such flag.
static Tensor conj(const Tensor &x) { return at::conj_physical(x); }

Overrides::Overrides(const CaptureOptions &options) {
  if (options.target == Target::Cpu) {
    addRecurrentLayers();
    library.impl("cumprod", &cumprod);
    library.impl("group_norm", &groupNorm);
    library.impl("scaled_dot_product_attention", &attentionForCpu);
  } else {
    addCudaKernels(options.cudaArchitecture);
  }
  addCheckedOperators();
  addCtcLoss();
  addModelCollectives();
  library.impl("_conj", &conj);
  onCpu.impl("_conj", &conj);
  library.impl("dropout", &dropout);
  library.impl("batch_norm", &batchNorm);
}
