//===- OverlapStateCopies.h - Copies of state beside updates ----*- C++ -*-===//

#ifndef FSDP_TRANSFORMS_OVERLAPSTATECOPIES_H
#define FSDP_TRANSFORMS_OVERLAPSTATECOPIES_H

#include "mlir/IR/Block.h"

namespace fsdp {

/// Lets the state of the next group be fetched, and that of the group before be stored, while a
/// group is updated: at most two groups have their state in the arena. Updates stay where they are.
void overlapStateCopies(mlir::Block &body);

} // namespace fsdp

#endif // FSDP_TRANSFORMS_OVERLAPSTATECOPIES_H
