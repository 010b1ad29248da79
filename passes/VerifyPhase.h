//===- VerifyPhase.h - A module is what its phase promises -------*- C++ -*-===//

#ifndef FSDP_PASSES_VERIFYPHASE_H
#define FSDP_PASSES_VERIFYPHASE_H

#include "mlir/IR/BuiltinOps.h"

namespace fsdp {

/// Runs the verifier pass of the phase that the module is in. Every tool calls it on what it is
/// handed: text may have been edited. Diagnoses the first violation.
mlir::LogicalResult verifyPhase(mlir::ModuleOp module);

} // namespace fsdp

#endif // FSDP_PASSES_VERIFYPHASE_H
