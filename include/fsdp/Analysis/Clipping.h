//===- Clipping.h - The norm of all gradients -------------------*- C++ -*-===//

#ifndef FSDP_ANALYSIS_CLIPPING_H
#define FSDP_ANALYSIS_CLIPPING_H

#include "fsdp/Analysis/Step.h"

namespace fsdp {

/// S8: if the optimizer clips, all updates take one clip factor, which comes from the sum of the
/// squares of all gradients, over all ranks of the shards; that stands behind the waits for all
/// reductions (on one rank behind all gradients). If it does not, none takes one. Diagnoses the
/// first violation.
mlir::LogicalResult checkClipping(Step &step);

} // namespace fsdp

#endif // FSDP_ANALYSIS_CLIPPING_H
