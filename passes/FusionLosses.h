//===- FusionLosses.h - Losses that read one number of a row ------*- C++ -*-===//

#ifndef FSDP_PASSES_FUSIONLOSSES_H
#define FSDP_PASSES_FUSIONLOSSES_H

#include "fsdp/IR/Fsdp.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fsdp {

/// Of an nll_loss of probabilities that a kernel of this rounding computes, the lookup becomes a
/// call of its own, which that kernel may hold: it stores one number for each row then. The loss is
/// torch's, with the same bits, of these numbers, as if there were one class.
void splitLosses(mlir::func::FuncOp step, Rounding rounding);

} // namespace fsdp

#endif // FSDP_PASSES_FUSIONLOSSES_H
