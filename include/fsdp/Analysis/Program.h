//===- Program.h - Several steps over one state ------------------*- C++ -*-===//
//
// A program is a module of modules: each holds one step with its declarations, as it would alone.
// The first step trains; the second, an evaluation, computes the loss of the same parameters. What
// they declare of the state is equal, and from memory planning on lies in one place for both.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_PROGRAM_H
#define FSDP_ANALYSIS_PROGRAM_H

#include "fsdp/IR/Fsdp.h"
#include "mlir/IR/OwningOpRef.h"

namespace fsdp {

/// The modules of a program's steps; of a module that is one step, itself.
llvm::SmallVector<mlir::ModuleOp> getSteps(mlir::ModuleOp module);

inline bool isProgram(mlir::ModuleOp module) { return !module.getOps<mlir::ModuleOp>().empty(); }

/// Hands an evaluation what only the training step knows of the state: which parameters have
/// gradients, and the optimizer. Both are captured. Diagnoses parameters and buffers of the
/// evaluation that the training step does not have so.
mlir::LogicalResult takeStateOf(mlir::ModuleOp training, mlir::ModuleOp evaluation);

/// The program of a training step and an evaluation, of their phase.
mlir::OwningOpRef<mlir::ModuleOp> makeProgram(mlir::OwningOpRef<mlir::ModuleOp> training,
                                              mlir::OwningOpRef<mlir::ModuleOp> evaluation);

/// P6: the steps are one that trains and one that evaluates, of one phase, mesh and groups; in a
/// planned program state lies in one place for both, in arenas of one size.
mlir::LogicalResult checkSharedState(mlir::ModuleOp program);

} // namespace fsdp

#endif // FSDP_ANALYSIS_PROGRAM_H
