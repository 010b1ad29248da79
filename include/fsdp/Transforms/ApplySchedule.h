//===- ApplySchedule.h - Applies a plan to a step ---------------*- C++ -*-===//

#ifndef FSDP_TRANSFORMS_APPLYSCHEDULE_H
#define FSDP_TRANSFORMS_APPLYSCHEDULE_H

#include "fsdp/Analysis/ScheduleProblem.h"

namespace fsdp {

/// Turns a sharded module into the scheduled module that follows `plan`, a verified plan of
/// `problem`, the module's getScheduleProblem. If a copy is kept, its reshard and its second gather
/// are removed, and views of the second copy become views of the first. Members of a bucket are
/// coalesced. Operations keep the problem's order. Linear. Invalidates `problem`.
void applySchedule(mlir::ModuleOp module, mlir::Block &body, const ScheduleProblem &problem,
                   const schedule::Plan &plan);

} // namespace fsdp

#endif // FSDP_TRANSFORMS_APPLYSCHEDULE_H
