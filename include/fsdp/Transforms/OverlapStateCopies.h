//===- OverlapStateCopies.h - Copies of state beside updates ----*- C++ -*-===//

#ifndef FSDP_TRANSFORMS_OVERLAPSTATECOPIES_H
#define FSDP_TRANSFORMS_OVERLAPSTATECOPIES_H

#include "mlir/IR/Block.h"

namespace fsdp {

/// Moves copies of optimizer state so that the next group's state is fetched and the previous
/// group's stored during a group's update. At most two groups then have their state in the arena.
/// Updates do not move.
void overlapStateCopies(mlir::Block &body);

} // namespace fsdp

#endif // FSDP_TRANSFORMS_OVERLAPSTATECOPIES_H
