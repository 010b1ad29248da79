//===- InfeasibleCap.h - Errors of caps that are too small ------*- C++ -*-===//

#ifndef FSDP_TRANSFORMS_INFEASIBLECAP_H
#define FSDP_TRANSFORMS_INFEASIBLECAP_H

#include "fsdp/Transforms/ScheduleSearch.h"

namespace fsdp {

/// The figures of a refused cap, in bytes.
struct CapLimits {
  int64_t capBytes;     // the cap minus the temporaries
  int64_t scratchBytes; // of temporaries inside operators
  /// The size of an arena that was found for the step, without temporaries; nullopt if none was.
  std::optional<int64_t> placedBytes;
};

/// Reports a cap below the least peak of all plans of `problem`: the peak, where it occurs, a
/// sufficient cap, the buffers that are live at the peak and, if `findLeastPeak` is given, changes
/// that would lower it, each with its figure.
void reportInfeasibleCap(mlir::ModuleOp module, const StepMemory &memory,
                         const ScheduleProblem &problem, const CapLimits &limits,
                         FindLeastPeak findLeastPeak);

} // namespace fsdp

#endif // FSDP_TRANSFORMS_INFEASIBLECAP_H
