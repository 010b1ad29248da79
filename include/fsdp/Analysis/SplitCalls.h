//===- SplitCalls.h - Calls that are several others --------------*- C++ -*-===//
//
// Kernels can hold a part of what some operators compute. These are split into calls that make the
// same numbers; the proof that a step computes what was captured takes a call and its parts for the
// same (Provenance.h).
//
// A loss of classes, nll_loss(rows, targets), is nll_loss(picked, ignored) with
//
//   picked  = gather(rows, 1, unsqueeze(clamp_min(targets, 0), 1))
//   ignored = clamp_max(targets, 0)
//
// if what is ignored is negative: of each row whose target is a class both add the same number, in
// the same order. Where a class is ignored, targets of it are replaced by a negative number first.
//
// With weights of classes, weights = gather(weight, 0, clamp_min(targets, 0)) is one of each row.
// The loss of picked * unsqueeze(weights, 1) is the sum of products; the loss of -weights is the
// sum of weights, by which a mean divides.
//
// A sum, mean or logsumexp of rows that drops the last dimension is the squeeze of the one that
// keeps it with size 1.
//
// A sum over all dimensions but the last, as the gradients of norms' weights and of biases are, is
// one over the chunks of
//
//   chunks = sum(view(numbers, [chunks, rows of one, columns]), 1)
//
// in fp32, rounded at the end. Of large tensors that are cut into enough chunks of equal size only.
//
// A native_layer_norm of the last dimension is, in fp32 and rounded at the end,
//
//   moved = numbers - mean(numbers)
//   rstd  = rsqrt(mean(moved * moved) + eps)
//   moved * rstd * weight + bias
//
// and its backward, where the gradients of weight and bias are sums as above,
//
//   normalized = (numbers - mean) * rstd
//   scaled     = gradient * weight
//   (scaled - mean(scaled) - normalized * mean(scaled * normalized)) * rstd
//
// A _fused_rms_norm is the same without the means of numbers and scaled, and without bias.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_SPLITCALLS_H
#define FSDP_ANALYSIS_SPLITCALLS_H

#include "fsdp/IR/Aten.h"

namespace fsdp {

/// Values are numbered: first the operands of the call that is split, then the results of the parts
/// in their order.
struct SplitCall {
  struct Part {
    llvm::StringRef callee;
    llvm::SmallVector<unsigned, 4> operands; // values
    llvm::SmallVector<mlir::Attribute> arguments;
    llvm::SmallVector<mlir::Type, 2> results;
  };
  llvm::SmallVector<Part, 8> parts;
  llvm::SmallVector<unsigned, 2> results; // the values that are the results of the call
};

/// True for an nll_loss that can be split: of more than one class in the last of two dimensions.
bool isLossOfRows(aten::CallOp call);

/// True for a sum over all dimensions but the last that can be split.
bool isLargeSumOfColumns(aten::CallOp call);

/// True for a native_layer_norm, a _fused_rms_norm or a backward of these that can be split.
bool isNorm(aten::CallOp call);

/// None for calls that are no loss, sum or norm as above.
std::optional<SplitCall> splitCall(aten::CallOp call);

} // namespace fsdp

#endif // FSDP_ANALYSIS_SPLITCALLS_H
