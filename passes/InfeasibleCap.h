//===- InfeasibleCap.h - Why a step cannot fit, and what would help -*- C++ -*-===//

#ifndef FSDP_PASSES_INFEASIBLECAP_H
#define FSDP_PASSES_INFEASIBLECAP_H

#include "fsdp/Analysis/ScheduleProblem.h"

namespace fsdp {

/// Refuses a cap below the least peak that any plan of `problem` has: names the peak, where it
/// occurs, what is live there, and what would lower it, each with its number. `capBytes` is what
/// the cap leaves beside `scratchBytes` of temporaries inside operators.
void reportInfeasibleCap(mlir::ModuleOp module, const StepMemory &memory,
                         const ScheduleProblem &problem, const cost::CostModel &costs,
                         int64_t capBytes, int64_t scratchBytes);

} // namespace fsdp

#endif // FSDP_PASSES_INFEASIBLECAP_H
