//===- Updates.h - Optimizer steps of flat tensors ---------------*- C++ -*-===//

#ifndef FSDP_LIB_INTERPRETER_UPDATES_H
#define FSDP_LIB_INTERPRETER_UPDATES_H

#include "fsdp/Analysis/OptimizerValues.h"

#include <ATen/core/Tensor.h>

namespace fsdp::interpreter {

/// One step of torch.optim's single-tensor implementation, in the parameters' dtype; if a state has
/// another dtype, in fp32 with one rounding when a tensor is stored. All tensors are contiguous, of
/// one dimension and size; `parameters` and `states` are changed. Each element's bits depend only
/// on that element of the operands, not on its position.
void updateFlat(const fsdp_optimizer &values, int64_t step, at::Tensor &parameters,
                at::Tensor gradients, llvm::MutableArrayRef<at::Tensor> states,
                std::optional<float> clipFactor);

/// The contribution of `values` to a norm of this type, a double: the sum of their squares or
/// absolute values, or the largest absolute value.
at::Tensor computeNormPart(NormType type, const at::Tensor &values);
/// The contribution of the values of both.
at::Tensor joinNormParts(NormType type, const at::Tensor &a, const at::Tensor &b);

/// min(1, maxNorm / (norm + 1e-6)) in fp32, as torch.nn.utils.clip_grad_norm_, where `total` is the
/// contribution of all values to the norm.
float computeClipFactor(NormType type, double total, float maxNorm);

} // namespace fsdp::interpreter

#endif // FSDP_LIB_INTERPRETER_UPDATES_H
