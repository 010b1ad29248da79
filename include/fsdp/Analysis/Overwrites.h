//===- Overwrites.h - What is read keeps its value ---------------*- C++ -*-===//

#ifndef FSDP_ANALYSIS_OVERWRITES_H
#define FSDP_ANALYSIS_OVERWRITES_H

#include "fsdp/Analysis/StepStorage.h"

namespace fsdp {

/// P4 of fsdp-verify-planned: a buffer, or on one rank a parameter, that is read keeps its value
/// until the last use of what was read: no write or update comes before, and no write stores a
/// rearrangement of the buffer into itself. Diagnoses the first violation.
mlir::LogicalResult checkOverwrites(mlir::func::FuncOp step, const GroupTable &groups,
                                    const StepStorage &storage);

} // namespace fsdp

#endif // FSDP_ANALYSIS_OVERWRITES_H
