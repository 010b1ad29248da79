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

/// Which groups keep the state of their optimizer in the memory of the host.
enum class OffloadPolicy {
  None, // those that say so
  Auto, // all that do not say otherwise, if no schedule fits the memory cap without
  All   // all that do not say otherwise
};

#define GEN_PASS_DECL
#include "passes/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/Passes.h.inc"

} // namespace fsdp

#endif // FSDP_PASSES_PASSES_H
