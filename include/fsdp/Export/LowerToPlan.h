//===- LowerToPlan.h - From a planned module to the plan's tables -*- C++ -*-===//

#ifndef FSDP_EXPORT_LOWERTOPLAN_H
#define FSDP_EXPORT_LOWERTOPLAN_H

#include "fsdp/Codegen/PtxKernels.h"
#include "fsdp/Export/PlanTables.h"
#include "mlir/IR/BuiltinOps.h"

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace fsdp {

/// Lowers a planned module: one value per tensor of the step, one entry per thing to do, in program
/// order. Gradients that memory planning did not place in the buffer from which they are reduced
/// are copied there; in the per-param layout so are all parameters, at their gather's wait. Errors
/// are reported at the operation concerned. Kernels get native code for CPUs, and in a step that
/// was captured for GPUs also PTX for `chip`, one of kChips.
llvm::FailureOr<PlanTables> lowerToPlan(mlir::ModuleOp module,
                                        llvm::StringRef chip = codegen::kOldestChip);

/// Lowers each step of a planned program; of a module that is one step, that.
llvm::FailureOr<std::vector<PlanTables>> lowerProgram(mlir::ModuleOp module,
                                                      llvm::StringRef chip = codegen::kOldestChip);

/// Prints a plan and those that follow it for people, one line per item.
void printPlan(const fsdp_plan &plan, llvm::raw_ostream &os);

} // namespace fsdp

#endif // FSDP_EXPORT_LOWERTOPLAN_H
