//===- FusionSplits.h - Calls of which a kernel holds a part -----*- C++ -*-===//

#ifndef FSDP_PASSES_FUSIONSPLITS_H
#define FSDP_PASSES_FUSIONSPLITS_H

#include "fsdp/IR/Fsdp.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fsdp {

/// Splits calls as fsdp/Analysis/SplitCalls.h says, where a kernel of this rounding may hold a
/// part: of an nll_loss of probabilities that a kernel computes the lookup, so that this stores one
/// number for each row; sums of rows without the dimension that is left out.
void splitCalls(mlir::func::FuncOp step, Rounding rounding);

} // namespace fsdp

#endif // FSDP_PASSES_FUSIONSPLITS_H
