//===- ApplySchedule.h - A plan, written into the step ----------*- C++ -*-===//

#ifndef FSDP_TRANSFORMS_APPLYSCHEDULE_H
#define FSDP_TRANSFORMS_APPLYSCHEDULE_H

#include "fsdp/Analysis/ScheduleProblem.h"

namespace fsdp {

/// Turns a sharded module into the scheduled one that follows `plan`, a verified plan of `problem`,
/// which getScheduleProblem made of the module. A kept copy loses its reshard and its second
/// gather, and views that were made again from that are those of the first; members of a bucket are
/// coalesced; operations keep the problem's order. Linear. `problem` is of no use afterwards.
void applySchedule(mlir::ModuleOp module, mlir::Block &body, const ScheduleProblem &problem,
                   const schedule::Plan &plan);

} // namespace fsdp

#endif // FSDP_TRANSFORMS_APPLYSCHEDULE_H
