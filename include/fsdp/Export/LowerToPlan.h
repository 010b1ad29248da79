//===- LowerToPlan.h - From a planned module to the plan's tables -*- C++ -*-===//

#ifndef FSDP_EXPORT_LOWERTOPLAN_H
#define FSDP_EXPORT_LOWERTOPLAN_H

#include "fsdp/Export/PlanTables.h"
#include "mlir/IR/BuiltinOps.h"

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace fsdp {

/// The oldest GPUs for which kernels are generated. Drivers compile their code for newer ones.
inline constexpr llvm::StringLiteral kOldestChip = "sm_80";

/// Lowers a planned module: one value per tensor of the step, one entry per thing to do, in program
/// order. Gradients that memory planning did not place in the buffer from which they are reduced
/// are copied there; in the per-param layout so are all parameters, at their gather's wait. Errors
/// are reported at the operation concerned. Kernels get native code for CPUs, and in a step that
/// was captured for GPUs also PTX for `chip`, as LLVM names it.
llvm::FailureOr<PlanTables> lowerToPlan(mlir::ModuleOp module, llvm::StringRef chip = kOldestChip);

/// Lowers each step of a planned program; of a module that is one step, that.
llvm::FailureOr<std::vector<PlanTables>> lowerProgram(mlir::ModuleOp module,
                                                      llvm::StringRef chip = kOldestChip);

/// Prints a plan and those that follow it for people, one line per item.
void printPlan(const fsdp_plan &plan, llvm::raw_ostream &os);

} // namespace fsdp

#endif // FSDP_EXPORT_LOWERTOPLAN_H
