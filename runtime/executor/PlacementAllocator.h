//===- PlacementAllocator.h - Planned addresses on a CPU ------ -*- C++ -*-===//

#ifndef FSDP_RUNTIME_PLACEMENTALLOCATOR_H
#define FSDP_RUNTIME_PLACEMENTALLOCATOR_H

#include "executor/OperatorAllocations.h"

namespace fsdp::rt {

/// Replaces torch's CPU allocator by one that asks OperatorAllocations. Takes effect once per
/// process; further calls do nothing.
void installPlacementAllocator();

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_PLACEMENTALLOCATOR_H
