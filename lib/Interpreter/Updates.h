//===- Updates.h - Optimizer steps of flat tensors ---------------*- C++ -*-===//

#ifndef FSDP_LIB_INTERPRETER_UPDATES_H
#define FSDP_LIB_INTERPRETER_UPDATES_H

#include "fsdp/IR/Fsdp.h"

#include <ATen/core/Tensor.h>

namespace fsdp::interpreter {

/// One step of torch.optim's single-tensor implementation. All tensors are contiguous, of one
/// dimension and size; `parameters` and `states` are changed. Each element's bits depend on that
/// element of the operands alone, not on where it lies.
void updateFlat(OptimizerOp optimizer, int64_t step, at::Tensor &parameters, at::Tensor gradients,
                llvm::MutableArrayRef<at::Tensor> states, std::optional<float> clipFactor);

/// min(1, maxNorm / (sqrt(squares) + 1e-6)) in fp32, as torch.nn.utils.clip_grad_norm_.
float computeClipFactor(double squares, float maxNorm);

} // namespace fsdp::interpreter

#endif // FSDP_LIB_INTERPRETER_UPDATES_H
