//===- PlannedStep.h - A step of any phase, ready to run ---------*- C++ -*-===//

#ifndef FSDP_TOOLS_PROFILE_PLANNEDSTEP_H
#define FSDP_TOOLS_PROFILE_PLANNEDSTEP_H

#include "fsdp/Codegen/NativeKernels.h"
#include "fsdp/Export/PlanTables.h"
#include "fsdp/IR/Fsdp.h"
#include "fsdp/Transforms/Choices.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <vector>

namespace fsdp::profile {

struct PlannedStep {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  PlanTables tables;
  /// For each entry of the plan, the call or launch that it runs; null for other entries and for
  /// views.
  std::vector<mlir::Operation *> operations;
  /// The code of the plan's kernels, and fsdp_plan::kernel_functions.
  std::optional<codegen::NativeKernels> native;
  std::vector<fsdp_kernel_function> kernelFunctions;

  bool hasKernels() const { return !tables.kernels.empty(); }
  /// The plan points into this step, and is valid while the step stays unchanged.
  fsdp_plan getPlan() const {
    fsdp_plan plan = tables.getPlan();
    if (hasKernels())
      plan.kernel_functions = kernelFunctions.data();
    return plan;
  }
};

/// True if the module has kernels already.
bool hasKernels(mlir::ModuleOp module);

/// Brings a copy of the module to the phase planned. A captured step is sharded over `ranks` (0:
/// 1); a step in any other phase has its own number of ranks, from which `ranks` must not differ. A
/// step without kernels gets those of `fusion`; with `Auto` only a captured or sharded step does,
/// since for later phases the pipeline has decided. Errors of the module are printed as
/// diagnostics; the returned error then has no details.
llvm::Expected<PlannedStep> planStep(mlir::ModuleOp module, int64_t ranks, FusionChoice fusion);

} // namespace fsdp::profile

#endif // FSDP_TOOLS_PROFILE_PLANNEDSTEP_H
