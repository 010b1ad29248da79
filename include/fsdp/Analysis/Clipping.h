//===- Clipping.h - Checks of gradient clipping -----------------*- C++ -*-===//

#ifndef FSDP_ANALYSIS_CLIPPING_H
#define FSDP_ANALYSIS_CLIPPING_H

#include "fsdp/Analysis/Step.h"

namespace fsdp {

/// How the ranks' parts of a norm are joined.
inline ReduceOp getNormReduceOp(NormType type) {
  return type == NormType::Infinity ? ReduceOp::Max : ReduceOp::Sum;
}

/// S8: if the optimizer clips, all updates take the same clip factor. The factor comes from the
/// norm of all gradients, of the norm type that the optimizer names, over Step::getNormAxes(). The
/// norm follows the waits for all reductions (on one rank: all gradients). Without clipping no
/// update takes a factor. Diagnoses the first violation.
mlir::LogicalResult checkClipping(Step &step);

} // namespace fsdp

#endif // FSDP_ANALYSIS_CLIPPING_H
