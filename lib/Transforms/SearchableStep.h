//===- SearchableStep.h - Checks of steps for a search ----------*- C++ -*-===//

#ifndef FSDP_LIB_TRANSFORMS_SEARCHABLESTEP_H
#define FSDP_LIB_TRANSFORMS_SEARCHABLESTEP_H

#include "fsdp/Analysis/Step.h"

namespace fsdp {

/// Diagnoses a grouped or sharded step that has a given order, or that a scheduling problem cannot
/// express.
mlir::LogicalResult checkIsSearchable(Step &step);

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_SEARCHABLESTEP_H
