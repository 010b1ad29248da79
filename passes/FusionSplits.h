//===- FusionSplits.h - Splits calls for kernels -----------------*- C++ -*-===//

#ifndef FSDP_PASSES_FUSIONSPLITS_H
#define FSDP_PASSES_FUSIONSPLITS_H

#include "fsdp/IR/Fsdp.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fsdp {

/// Splits calls as fsdp/Analysis/SplitCalls.h defines, where a kernel with this rounding can hold
/// one of the parts. An nll_loss of log-probabilities that a kernel computes is split so that the
/// kernel can hold the lookup and store one element per row. A row reduction that drops the last
/// dimension is split so that a kernel can hold the reduction that keeps the dimension. A sum over
/// all rows of a value that a fast kernel computes is split into sums of chunks, which the kernel
/// can hold. Norms are split for fast kernels.
void splitCalls(mlir::func::FuncOp step, Rounding rounding);

} // namespace fsdp

#endif // FSDP_PASSES_FUSIONSPLITS_H
