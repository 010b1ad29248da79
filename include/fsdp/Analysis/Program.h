//===- Program.h - Several steps over one state ------------------*- C++ -*-===//
//
// A program is a module of modules: each holds one step with its declarations, as it would alone.
// The first ones train, each with samples of another shape; the last ones may be evaluations,
// likewise, which compute the loss of the same parameters. What they declare of the state is equal,
// and from memory planning on lies in one place for all of them.
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

/// Hands another step of a program what the first training step says of the state: the optimizer,
/// and, if the other one evaluates, which parameters have gradients. Transient buffers that neither
/// writes become literals. Both are captured, the other one as a further step. Diagnoses parameters
/// and buffers that the other step does not have so.
mlir::LogicalResult takeStateOf(mlir::ModuleOp training, mlir::ModuleOp other);

/// The program of steps that train, at least one, and then perhaps some that evaluate, of their
/// phase. The steps' modules get names: @step, @step_2, ..., @evaluate, @evaluate_2, ...
mlir::OwningOpRef<mlir::ModuleOp>
makeProgram(llvm::MutableArrayRef<mlir::OwningOpRef<mlir::ModuleOp>> steps);

/// P6: the steps are some that train, with samples of different shapes, and then perhaps some that
/// evaluate, likewise, of one phase, mesh, optimizer and groups; in a planned program state lies in
/// one place for all of them, in arenas of one size.
mlir::LogicalResult checkSharedState(mlir::ModuleOp program);

} // namespace fsdp

#endif // FSDP_ANALYSIS_PROGRAM_H
