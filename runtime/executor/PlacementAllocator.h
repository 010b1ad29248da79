//===- PlacementAllocator.h - Operators allocate where planned --*- C++ -*-===//

#ifndef FSDP_RUNTIME_PLACEMENTALLOCATOR_H
#define FSDP_RUNTIME_PLACEMENTALLOCATOR_H

#include "executor/OperatorAllocations.h"

namespace fsdp::rt {

/// Makes an allocator that asks OperatorAllocations torch's CPU allocator. Once per process; further
/// calls do nothing.
void installPlacementAllocator();

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_PLACEMENTALLOCATOR_H
