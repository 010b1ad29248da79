//===- Passes.h - Passes over captured training steps -----------*- C++ -*-===//

#ifndef FSDP_PASSES_PASSES_H
#define FSDP_PASSES_PASSES_H

#include "fsdp/IR/Fsdp.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace fsdp {

/// Who decides on the order of issue.
enum class ScheduleChoice {
  Fsdp2, // eager FSDP2, event for event
  Asap,  // everything as soon as its memory is there, nothing kept that need not be
  Auto   // a search for the least predicted step time
};

/// What of the forward is computed again in the backward instead of being kept.
enum class RecomputePolicy {
  None,
  Cheap,    // what costs about as much to compute as to read
  Selected, // of blocks: all but products and attention; cheap elsewhere
  Full,     // of blocks: all but what enters them; cheap elsewhere
  Auto      // the fastest of these that fits the memory cap
};

#define GEN_PASS_DECL
#include "passes/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/Passes.h.inc"

} // namespace fsdp

#endif // FSDP_PASSES_PASSES_H
