//===- FusionSplits.h - Calls of which a kernel holds a part -----*- C++ -*-===//

#ifndef FSDP_PASSES_FUSIONSPLITS_H
#define FSDP_PASSES_FUSIONSPLITS_H

#include "fsdp/IR/Fsdp.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fsdp {

/// Splits calls as fsdp/Analysis/SplitCalls.h says, where a kernel of this rounding may hold a
/// part. Of an nll_loss of probabilities that a kernel computes, that kernel may hold the lookup:
/// it stores one number for each row then. Of a sum of rows that drops the last dimension, a kernel
/// may hold the sum that keeps it; of one over all rows of what a fast kernel computes, the sums of
/// chunks. A fast kernel may hold norms.
void splitCalls(mlir::func::FuncOp step, Rounding rounding);

} // namespace fsdp

#endif // FSDP_PASSES_FUSIONSPLITS_H
