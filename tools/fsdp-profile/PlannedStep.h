//===- PlannedStep.h - A step of any phase, ready to run ---------*- C++ -*-===//

#ifndef FSDP_TOOLS_PROFILE_PLANNEDSTEP_H
#define FSDP_TOOLS_PROFILE_PLANNEDSTEP_H

#include "fsdp/Export/PlanTables.h"
#include "fsdp/IR/Fsdp.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <vector>

namespace fsdp::profile {

struct PlannedStep {
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  PlanTables tables;
  /// By entry of the plan: the call that it runs; null for other entries and for views.
  std::vector<aten::CallOp> calls;
};

/// Reads a module and brings it to the phase planned. A captured one is sharded over `ranks` (0:
/// 1); any other has its ranks, from which `ranks` must not differ. What is wrong with the module
/// is printed as diagnostics; the error is then empty of details.
llvm::Expected<PlannedStep> planStep(const std::string &file, int64_t ranks);

} // namespace fsdp::profile

#endif // FSDP_TOOLS_PROFILE_PLANNEDSTEP_H
