//===- PlanMemory.h - A rank's memory by use ------------------ -*- C++ -*-===//

#ifndef FSDP_RUNTIME_PLANMEMORY_H
#define FSDP_RUNTIME_PLANMEMORY_H

#include "plan/PlanView.h"

namespace fsdp::rt {

/// Bytes of a rank by use. The members with `host` in their names are on the host, the others in
/// the arena.
struct PlanMemory {
  int64_t shards = 0;       // of parameters
  int64_t gatherCopies = 0; // of the shards, in the dtype in which they are gathered
  int64_t optimizerState = 0;
  int64_t tensors = 0;        // inputs, buffers and constants
  int64_t working = 0;        // activations, gathered parameters, gradients: only during a step
  int64_t hostParameters = 0; // on the host, with their copies to gather
  int64_t hostState = 0;      // optimizer state on the host
  int64_t hostWaiting = 0;    // gradients, activations and chunks that wait on the host

  /// Bytes that the arena keeps between steps.
  int64_t kept() const { return shards + gatherCopies + optimizerState + tensors; }
};

PlanMemory memoryOf(const PlanView &plan);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_PLANMEMORY_H
