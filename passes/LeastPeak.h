//===- LeastPeak.h - The least memory of a captured step --------*- C++ -*-===//

#ifndef FSDP_PASSES_LEASTPEAK_H
#define FSDP_PASSES_LEASTPEAK_H

#include "fsdp/CostModel/CostModel.h"
#include "fsdp/Transforms/Choices.h"
#include "fsdp/Transforms/ScheduleSearch.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Passes.h"

namespace fsdp {

/// Choices for a captured step before a schedule is searched for.
struct StepChoices {
  std::optional<RecomputeOptions> recompute = {}; // none: no fsdp-recompute
  OffloadChoices offload = {};
  FusionChoice fusion = FusionChoice::Off;
};

/// Adds the passes from `captured`, a step with groups, to the sharded step that a search takes.
void addSharding(mlir::OpPassManager &manager, mlir::ModuleOp captured, const StepChoices &choices);

/// The least peak, in bytes, of any schedule of the captured step with groups `captured`; none if
/// it cannot be scheduled. Emits no diagnostics. Changes `captured`: pass a clone.
std::optional<int64_t> findLeastPeak(mlir::ModuleOp captured, const cost::CostModel &costs,
                                     const StepChoices &choices);

/// The same for the captured step from which `sharded` was made, with `change` applied.
std::optional<int64_t> findLeastPeak(mlir::ModuleOp sharded, const cost::CostModel &costs,
                                     const StepChange &change, FusionChoice fusion);

} // namespace fsdp

#endif // FSDP_PASSES_LEASTPEAK_H
