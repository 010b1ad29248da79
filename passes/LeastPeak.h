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

/// What is done to a captured step before a schedule is searched for.
struct StepChoices {
  std::optional<RecomputeOptions> recompute = {}; // none: it stays as it is
  OffloadChoices offload = {};
  FusionChoice fusion = FusionChoice::Off;
};

/// The passes from `captured`, a step with groups, to the sharded step that a search takes.
void addSharding(mlir::OpPassManager &manager, mlir::ModuleOp captured, const StepChoices &choices);

/// The least peak, in bytes, of any schedule of the captured step with groups `captured`; none
/// where that is no step that can be scheduled. Emits nothing. `captured` is changed: give a clone.
std::optional<int64_t> findLeastPeak(mlir::ModuleOp captured, const cost::CostModel &costs,
                                     const StepChoices &choices);

/// The same of the captured step behind a sharded one, each group over `shardFactor` times as many
/// ranks.
std::optional<int64_t> findLeastPeak(mlir::ModuleOp sharded, const cost::CostModel &costs,
                                     const StepChange &change, FusionChoice fusion);

} // namespace fsdp

#endif // FSDP_PASSES_LEASTPEAK_H
