//===- VerifyPhase.h - Verifies a module by its phase --------- -*- C++ -*-===//

#ifndef FSDP_PASSES_VERIFYPHASE_H
#define FSDP_PASSES_VERIFYPHASE_H

#include "mlir/IR/BuiltinOps.h"

namespace fsdp {

/// Runs the verifier pass of the module's phase, and diagnoses the first violation. Every tool
/// calls it on its input, since text may have been edited.
mlir::LogicalResult verifyPhase(mlir::ModuleOp module);

} // namespace fsdp

#endif // FSDP_PASSES_VERIFYPHASE_H
