//===- RunPipelines.h - From captured steps to planned ones ------*- C++ -*-===//

#ifndef FSDP_TOOLS_FSDPC_RUNPIPELINES_H
#define FSDP_TOOLS_FSDPC_RUNPIPELINES_H

#include "Options.h"
#include "Progress.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace fsdp {

/// The steps, captured, become planned ones, or of a program scheduled ones. Returns the exit code,
/// as the next function.
int runPipelines(llvm::MutableArrayRef<mlir::OwningOpRef<mlir::ModuleOp>> modules,
                 llvm::ArrayRef<ProgramStep> steps, const Options &options, Stage &stage);

/// Plans the memory of all steps together.
int planProgram(mlir::ModuleOp program, const Options &options, Stage &stage);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPC_RUNPIPELINES_H
