//===- Program.h - Several steps over one state ------------------*- C++ -*-===//
//
// A program is a module of modules, one per step, each with its own declarations as if it were
// alone. The first steps train, each with samples of another shape. The last steps may be
// evaluations, also of different shapes, which compute the loss of the same parameters. All steps
// declare the same state, and memory planning gives the state the same offsets in all steps.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_PROGRAM_H
#define FSDP_ANALYSIS_PROGRAM_H

#include "fsdp/IR/Fsdp.h"
#include "mlir/IR/OwningOpRef.h"

namespace fsdp {

/// The modules of a program's steps; `module` itself if it is a single step.
llvm::SmallVector<mlir::ModuleOp> getSteps(mlir::ModuleOp module);

inline bool isProgram(mlir::ModuleOp module) { return !module.getOps<mlir::ModuleOp>().empty(); }

/// Copies the state that the first training step declares to another captured step: the optimizer
/// and, if the other step evaluates, which parameters have gradients. Transient buffers that
/// neither step writes become literals. Diagnoses parameters and buffers that the other step lacks
/// or declares differently.
mlir::LogicalResult takeStateOf(mlir::ModuleOp training, mlir::ModuleOp other);

/// A program of at least one training step, then any evaluation steps, in the phase of its steps.
/// The steps' modules are named @step, @step_2, ..., @evaluate, @evaluate_2, ...
mlir::OwningOpRef<mlir::ModuleOp>
makeProgram(llvm::MutableArrayRef<mlir::OwningOpRef<mlir::ModuleOp>> steps);

/// P6: a program has training steps with samples of different shapes, then any evaluation steps,
/// also of different shapes. All steps have the same phase, mesh, optimizer and groups. In a
/// planned program the state has the same offsets in all steps, in arenas of equal size.
mlir::LogicalResult checkSharedState(mlir::ModuleOp program);

} // namespace fsdp

#endif // FSDP_ANALYSIS_PROGRAM_H
