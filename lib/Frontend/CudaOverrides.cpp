//===- CudaOverrides.cpp - Which fused operators a GPU's step has ---------===//
//
// Eager torch chooses an attention kernel by properties of the device, the tensors and the mask.
// This file makes the same choice as torch 2.11 with cuDNN 9.19 on a device of the architecture
// that the step is captured for (select_sdp_backend in
// ATen/native/transformers/cuda/sdp_utils.cpp).
//
//===----------------------------------------------------------------------===//

#include "Overrides.h"

#include "fsdp/Frontend/Capture.h"

#include <ATen/ops/_fused_rms_norm.h>
#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/rsqrt.h>

#include <cmath>
#include <limits>
#include <numeric>

using namespace fsdp::frontend;
using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

namespace {
/// The arguments of scaled_dot_product_attention.
struct Attention {
  const Tensor &q, &k, &v; // [batch, heads, sequence, head dimension], if 4-dimensional
  const OptionalTensor &mask;
  double dropout;
  bool isCausal;
  bool isGrouped; // fewer heads of k and v than of q

  int64_t queries() const { return q.size(2); }
  int64_t keys() const { return k.size(2); }
  bool hasMask() const { return mask && mask->defined(); }
  bool needsMaskGradient() const {
    return at::GradMode::is_enabled() && hasMask() && mask->requires_grad();
  }
  bool isHalf() const { return q.scalar_type() == at::kHalf || q.scalar_type() == at::kBFloat16; }
  /// Four dimensions, none empty, the last one contiguous; k and v have the same heads.
  bool isRegular() const {
    for (const Tensor *tensor : {&q, &k, &v})
      if (tensor->dim() != 4 || tensor->numel() == 0 ||
          (tensor->size(-1) != 1 && tensor->stride(-1) != 1) || tensor->size(0) != q.size(0))
        return false;
    return k.size(1) == v.size(1) &&
           (isGrouped ? q.size(1) % k.size(1) == 0 : q.size(1) == k.size(1));
  }
};
} // namespace

/// cuDNN does not compute a mask's gradient. Its backward may return NaN if the rows of a mask end
/// in the middle of a tile of 128 (pytorch issue 196678).
static bool fitsCudnnMask(const Attention &call) {
  constexpr int64_t kTile = 128;
  return !call.hasMask() || (!call.needsMaskGradient() && call.keys() % kTile != kTile / 2);
}

static bool fitsCudnn(const Attention &call, unsigned architecture) {
  const int64_t limit = architecture == 90 ? 256 : 128, head = call.q.size(-1),
                valueHead = call.v.size(-1);
  return (architecture == 90 || architecture == 100) && call.isHalf() && head % 8 == 0 &&
         valueHead % 8 == 0 && head <= limit && valueHead <= limit && call.keys() != 1 &&
         !(call.queries() == 1 && call.dropout > 0) && fitsCudnnMask(call);
}

static bool fitsFlash(const Attention &call) {
  const int64_t head = call.q.size(-1);
  return call.isHalf() && !call.hasMask() && head <= 256 && call.k.size(-1) == head &&
         call.v.size(-1) == head && !(call.isCausal && call.queries() != call.keys());
}

/// With dropout the kernel's seeds are on the host, except in a captured graph: a step cannot hold
/// them.
static bool fitsEfficient(const Attention &call) {
  const int64_t alignment = call.isHalf() ? 8 : 4;
  return (call.isHalf() || call.q.scalar_type() == at::kFloat) && call.dropout == 0 &&
         call.q.size(-1) == call.k.size(-1) && call.q.size(-1) % alignment == 0 &&
         call.v.size(-1) % alignment == 0;
}

/// The mask, expanded to all heads and samples, with rows that begin at multiples of 16 elements.
static OptionalTensor makeEfficientMask(const Attention &call, const OptionalTensor &additive) {
  if (!call.hasMask())
    return std::nullopt;
  constexpr int64_t kAlignment = 16;
  Tensor mask = *additive;
  if (int64_t rest = mask.size(-1) % kAlignment; rest != 0)
    mask = at::constant_pad_nd(mask, {0, kAlignment - rest}).narrow(-1, 0, mask.size(-1));
  return mask.expand({call.q.size(0), call.q.size(1), call.queries(), call.keys()});
}

/// Pads heads with zeros to a multiple of 8 dimensions.
static Tensor padHeads(const Tensor &tensor) {
  constexpr int64_t kAlignment = 8;
  const int64_t rest = tensor.size(-1) % kAlignment;
  return rest == 0 ? tensor : at::constant_pad_nd(tensor, {0, kAlignment - rest});
}

/// The scale is that of the heads before padding, as in eager mode.
static Tensor flash(const Attention &call, std::optional<double> scale) {
  const int64_t head = call.q.size(-1);
  if (!scale && head % 8 != 0)
    scale = 1 / std::sqrt(static_cast<double>(head));
  Tensor result = std::get<0>(at::_scaled_dot_product_flash_attention(
      padHeads(call.q), padHeads(call.k), padHeads(call.v), call.dropout, call.isCausal,
      /*return_debug_mask=*/false, scale));
  return result.size(-1) == head ? result : result.narrow(-1, 0, head);
}

static Tensor repeatHeads(const Tensor &tensor, int64_t heads) {
  return tensor.size(1) == heads ? tensor
                                 : tensor.repeat_interleave(heads / tensor.size(1), /*dim=*/1);
}

template <unsigned architecture>
static Tensor attention(const Tensor &q, const Tensor &k, const Tensor &v,
                        const OptionalTensor &mask, double dropout, bool isCausal,
                        std::optional<double> scale, bool enableGqa) {
  const Attention call{q, k, v, mask, dropout, isCausal, enableGqa};
  OptionalTensor additive = makeAdditiveMask(mask, q.scalar_type());
  // The efficient kernel requires a mask of the queries' dtype, and cuDNN assumes that dtype.
  OptionalTensor narrow = additive;
  if (call.hasMask())
    narrow = additive->to(q.scalar_type());
  const bool needsGradient =
      at::GradMode::is_enabled() &&
      (q.requires_grad() || k.requires_grad() || v.requires_grad() || call.needsMaskGradient());
  if (call.isRegular()) {
    if (fitsCudnn(call, architecture))
      return std::get<0>(at::_scaled_dot_product_cudnn_attention(
          q, k, v, narrow, needsGradient, dropout, isCausal, /*return_debug_mask=*/false, scale));
    if (fitsFlash(call))
      return flash(call, scale);
    if (fitsEfficient(call))
      return std::get<0>(at::_scaled_dot_product_efficient_attention(
          q, repeatHeads(k, q.size(1)), repeatHeads(v, q.size(1)), makeEfficientMask(call, narrow),
          needsGradient, dropout, isCausal, scale));
  }
  return std::get<0>(at::_scaled_dot_product_attention_math(q, k, v, additive, dropout, isCausal,
                                                            {}, scale, enableGqa));
}

/// torch's RMS norm on devices without a kernel for it.
static Tensor composeRmsNorm(const Tensor &x, at::IntArrayRef normalized,
                             const OptionalTensor &weight, std::optional<double> eps) {
  const at::ScalarType type = x.scalar_type(),
                       wide = c10::isReducedFloatingType(type) ? at::kFloat : type;
  const double smallest = c10::toRealValueType(wide) == at::kDouble
                              ? std::numeric_limits<double>::epsilon()
                              : std::numeric_limits<float>::epsilon();
  std::vector<int64_t> dims(normalized.size());
  std::iota(dims.begin(), dims.end(), x.dim() - static_cast<int64_t>(dims.size()));
  Tensor input = x.to(wide);
  Tensor squares = at::pow(input, 2).mean(dims, /*keepdim=*/true);
  Tensor result = input.mul(at::rsqrt(squares.add(eps.value_or(smallest))));
  return (weight && weight->defined() ? result.mul(*weight) : result).to(type);
}

/// at::rms_norm checks the device: a GPU has a single kernel for it.
static Tensor rmsNorm(const Tensor &x, c10::SymIntArrayRef normalized, const OptionalTensor &weight,
                      std::optional<double> eps) {
  const bool hasWeight = weight && weight->defined();
  const at::MemoryFormat format = x.suggest_memory_format();
  const at::IntArrayRef sizes = C10_AS_INTARRAYREF_SLOW(normalized);
  if (format == at::MemoryFormat::ChannelsLast || format == at::MemoryFormat::ChannelsLast3d ||
      x.is_complex() || (hasWeight && weight->scalar_type() != x.scalar_type()))
    return composeRmsNorm(x, sizes, weight, eps);
  return std::get<0>(at::_fused_rms_norm(x, sizes, weight, eps));
}

void Overrides::addCudaKernels(unsigned architecture) {
  library.impl("rms_norm", &rmsNorm);
  library.impl("scaled_dot_product_attention", architecture == 90    ? &attention<90>
                                               : architecture == 100 ? &attention<100>
                                                                     : &attention<80>);
}
