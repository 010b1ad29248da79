//===- Overwrites.h - Checks of writes to buffers ---------------*- C++ -*-===//

#ifndef FSDP_ANALYSIS_OVERWRITES_H
#define FSDP_ANALYSIS_OVERWRITES_H

#include "fsdp/Analysis/StepStorage.h"

namespace fsdp {

/// P4 of fsdp-verify-planned: a buffer (on one rank also a parameter) that is read keeps its value
/// until the last use of the value read. No write or update comes earlier, and no write stores a
/// rearrangement of the buffer into the buffer itself. Diagnoses the first violation.
mlir::LogicalResult checkOverwrites(mlir::func::FuncOp step, const GroupTable &groups,
                                    const StepStorage &storage);

} // namespace fsdp

#endif // FSDP_ANALYSIS_OVERWRITES_H
