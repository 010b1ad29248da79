//===- SplitCalls.h - Calls as several simpler calls ------------*- C++ -*-===//
//
// A kernel can include a part of the computation of some operators. Calls of these operators are
// split into calls that compute the same result. The proof that a step computes what was captured
// treats a call and its parts as equal (Provenance.h).
//
// A classification loss, nll_loss(rows, targets), is nll_loss(picked, ignored) with
//
//   picked  = gather(rows, 1, unsqueeze(clamp_min(targets, 0), 1))
//   ignored = clamp_max(targets, 0)
//
// if the ignored class is negative: for each row whose target is a class both add the same element,
// in the same order. If the ignored class is not negative, targets equal to it are first replaced
// by a negative number.
//
// With class weights, weights = gather(weight, 0, clamp_min(targets, 0)) has one element per row.
// The loss of picked * unsqueeze(weights, 1) is the weighted sum. The loss of -weights is the sum
// of the weights, by which a mean divides.
//
// A sum, mean or logsumexp of rows that drops the last dimension is the squeeze of the same
// operator that keeps the dimension with size 1.
//
// A sum over all dimensions but the last, such as the gradient of a norm's weight or of a bias, is
// a sum over the chunks of
//
//   chunks = sum(view(tensor, [chunks, rows per chunk, columns]), 1)
//
// in fp32, rounded at the end. Only tensors large enough for several chunks of equal size are
// split.
//
// A native_layer_norm of the last dimension is, in fp32 and rounded at the end,
//
//   centered = input - mean(input)
//   rstd     = rsqrt(mean(centered * centered) + eps)
//   centered * rstd * weight + bias
//
// and its backward, in which the gradients of weight and bias are sums as above, is
//
//   normalized = (input - mean) * rstd
//   scaled     = gradient * weight
//   (scaled - mean(scaled) - normalized * mean(scaled * normalized)) * rstd
//
// A _fused_rms_norm is the same without the means of input and scaled, and without bias.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_SPLITCALLS_H
#define FSDP_ANALYSIS_SPLITCALLS_H

#include "fsdp/IR/Aten.h"

namespace fsdp {

/// Values are numbered: first the operands of the split call, then the results of its parts in
/// order.
struct SplitCall {
  struct Part {
    llvm::StringRef callee;
    llvm::SmallVector<unsigned, 4> operands; // value numbers
    llvm::SmallVector<mlir::Attribute> arguments;
    llvm::SmallVector<mlir::Type, 2> results;
  };
  llvm::SmallVector<Part, 8> parts;
  llvm::SmallVector<unsigned, 2> results; // numbers of the values that replace the call's results
};

/// True for an nll_loss that can be split: over more than one class, in the last of two dimensions.
bool isLossOfRows(aten::CallOp call);

/// True for a sum over all dimensions but the last that can be split.
bool isLargeSumOfColumns(aten::CallOp call);

/// True for a native_layer_norm, a _fused_rms_norm or a backward of these that can be split.
bool isNorm(aten::CallOp call);

/// The parts of a loss, sum or norm as above; nullopt for other calls.
std::optional<SplitCall> splitCall(aten::CallOp call);

} // namespace fsdp

#endif // FSDP_ANALYSIS_SPLITCALLS_H
