//===- HostPlaces.h - Buffers in the host's arena ---------------*- C++ -*-===//

#ifndef FSDP_ANALYSIS_HOSTPLACES_H
#define FSDP_ANALYSIS_HOSTPLACES_H

#include "fsdp/Analysis/GroupTable.h"

namespace fsdp {

/// A gradient, an activation or a chunk in the host's arena while operations first, ..., last of
/// the step run, both included.
struct StoredValue {
  mlir::Operation *store; // the start of the store
  int64_t bytes;
  int64_t first, last; // positions of the store's start and of the last wait for what reads it
};

/// Bytes that a store copies, without padding.
int64_t getStoredBytes(StoreStartOp store, const GroupTable &groups);

/// The stored gradients, activations and chunks of a step, in order.
llvm::SmallVector<StoredValue> collectStoredValues(mlir::Block &body, const GroupTable &groups);

/// P5: in a planned module the buffers in the host's arena do not overlap while they are live, are
/// aligned as the arena is, and lie within it. Diagnoses the first violation. GroupInfo checks how
/// many buffers a group has there.
mlir::LogicalResult checkHostPlaces(mlir::ModuleOp module, mlir::Block &body,
                                    const GroupTable &groups);

} // namespace fsdp

#endif // FSDP_ANALYSIS_HOSTPLACES_H
