//===- Clipping.h - Checks of gradient clipping -----------------*- C++ -*-===//

#ifndef FSDP_ANALYSIS_CLIPPING_H
#define FSDP_ANALYSIS_CLIPPING_H

#include "fsdp/Analysis/Step.h"

namespace fsdp {

/// How the ranks' parts of a norm are joined.
inline ReduceOp getNormReduceOp(NormType type) {
  return type == NormType::Infinity ? ReduceOp::Max : ReduceOp::Sum;
}

/// A training step has one `fsdp.loss_scale` if its optimizer has a `loss_scale`, else none; an
/// evaluation has none. Diagnoses the first violation under this label.
mlir::LogicalResult checkLossScaleOp(Step &step, llvm::StringRef label);

/// S8: if the optimizer clips or scales the loss, all updates take the same clip factor. The factor
/// comes from the norm of all gradients, of the norm type that the optimizer names, over
/// Step::getNormAxes(). The norm follows the waits for all reductions (on one rank: all gradients).
/// Otherwise no update takes a factor. The factor and all updates take the step's loss scale, if it
/// has one. Diagnoses the first violation.
mlir::LogicalResult checkClipping(Step &step);

} // namespace fsdp

#endif // FSDP_ANALYSIS_CLIPPING_H
