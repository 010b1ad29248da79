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

/// Lowers a planned module to one value per tensor and one entry per action of the step, in program
/// order. Gradients that memory planning did not place in their reduction's input are copied there;
/// in the per-param layout all parameters are copied as well, at their gather's wait. Errors are
/// reported at the operation concerned. Kernels get native code for CPUs, and in a step that was
/// captured for GPUs also PTX for `chip`, one of kChips.
llvm::FailureOr<PlanTables> lowerToPlan(mlir::ModuleOp module,
                                        llvm::StringRef chip = codegen::kOldestChip);

/// Lowers each step of a planned program, or a module that is a single step.
llvm::FailureOr<std::vector<PlanTables>> lowerProgram(mlir::ModuleOp module,
                                                      llvm::StringRef chip = codegen::kOldestChip);

/// Prints a plan and its successors (fsdp_plan::next) for readers, one line per item.
void printPlan(const fsdp_plan &plan, llvm::raw_ostream &os);

} // namespace fsdp

#endif // FSDP_EXPORT_LOWERTOPLAN_H
