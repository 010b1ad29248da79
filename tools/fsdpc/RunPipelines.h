//===- RunPipelines.h - From captured steps to planned ones ------*- C++ -*-===//

#ifndef FSDP_TOOLS_FSDPC_RUNPIPELINES_H
#define FSDP_TOOLS_FSDPC_RUNPIPELINES_H

#include "Options.h"
#include "Progress.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace fsdp {

/// Brings the captured steps `modules` to the phase planned, on one mesh of the options. Changes
/// `modules`. Returns null if it has printed an error.
mlir::OwningOpRef<mlir::ModuleOp> planFor(size_t mesh,
                                          std::vector<mlir::OwningOpRef<mlir::ModuleOp>> modules,
                                          llvm::ArrayRef<ProgramStep> steps, const Options &options,
                                          Stage &stage);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPC_RUNPIPELINES_H
