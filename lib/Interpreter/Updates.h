//===- Updates.h - Optimizer steps of flat tensors ---------------*- C++ -*-===//

#ifndef FSDP_LIB_INTERPRETER_UPDATES_H
#define FSDP_LIB_INTERPRETER_UPDATES_H

#include "fsdp/Analysis/OptimizerValues.h"

#include <ATen/core/Tensor.h>

#include <cmath>

namespace fsdp::interpreter {

/// What gradients are multiplied by, one after the other; absent: 1.
struct GradientFactors {
  std::optional<float> inverseScale, clip;

  /// With a loss scale, a clip factor of NaN leaves the update out.
  bool leaveUpdateOut() const { return inverseScale && std::isnan(clip.value_or(1)); }
};

/// 1 / the loss scale of the first step; absent if the optimizer has none.
std::optional<float> getInverseScale(OptimizerOp optimizer);

/// One step of torch.optim's single-tensor implementation, in the parameters' dtype; if a state has
/// another dtype, in fp32 with one rounding when a tensor is stored. All tensors are contiguous, of
/// one dimension and size; `parameters` and `states` are changed. Each element's bits depend only
/// on that element of the operands, not on its position.
void updateFlat(const fsdp_optimizer &values, int64_t step, at::Tensor &parameters,
                at::Tensor gradients, llvm::MutableArrayRef<at::Tensor> states,
                const GradientFactors &factors);

/// The contribution of `values` to a norm of this type, a double: the sum of their squares or
/// absolute values, or the largest absolute value.
at::Tensor computeNormPart(NormType type, const at::Tensor &values);
/// The contribution of the values of both.
at::Tensor joinNormParts(NormType type, const at::Tensor &a, const at::Tensor &b);

/// The result of an `fsdp.clip_factor` in a step with this optimizer, where `total` is the
/// contribution of all gradients to their norm.
float computeClipFactor(OptimizerOp optimizer, double total);

} // namespace fsdp::interpreter

#endif // FSDP_LIB_INTERPRETER_UPDATES_H
