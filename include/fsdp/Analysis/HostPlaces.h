//===- HostPlaces.h - Where optimizer state lies on the host ----*- C++ -*-===//

#ifndef FSDP_ANALYSIS_HOSTPLACES_H
#define FSDP_ANALYSIS_HOSTPLACES_H

#include "fsdp/Analysis/GroupTable.h"

namespace fsdp {

/// P5: in a planned module, the places of state on the host are their own, aligned as the arena is,
/// within the host's arena. Diagnoses the first violation. How many there are GroupInfo checks.
mlir::LogicalResult checkHostPlaces(mlir::ModuleOp module, const GroupTable &groups);

} // namespace fsdp

#endif // FSDP_ANALYSIS_HOSTPLACES_H
