//===- HostPlaces.h - What lies where on the host ---------------*- C++ -*-===//

#ifndef FSDP_ANALYSIS_HOSTPLACES_H
#define FSDP_ANALYSIS_HOSTPLACES_H

#include "fsdp/Analysis/GroupTable.h"

namespace fsdp {

/// A gradient or an activation in the host's arena, at operations first, ..., last of the step,
/// both included.
struct StoredValue {
  mlir::Operation *store; // its start
  int64_t bytes;
  int64_t first, last; // the start of its store; the end of its last fetch
};

/// What a store copies, without padding.
int64_t getStoredBytes(StoreStartOp store, const GroupTable &groups);

/// Those of a step, in order.
llvm::SmallVector<StoredValue> collectStoredValues(mlir::Block &body, const GroupTable &groups);

/// P5: in a planned module, the places of what lies on the host are their own while
/// they are needed, aligned as the arena is, within the host's arena. Diagnoses the first
/// violation. How many there are of what a group keeps GroupInfo checks.
mlir::LogicalResult checkHostPlaces(mlir::ModuleOp module, mlir::Block &body,
                                    const GroupTable &groups);

} // namespace fsdp

#endif // FSDP_ANALYSIS_HOSTPLACES_H
