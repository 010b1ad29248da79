//===- InfeasibleCap.h - Why a step cannot fit, and what would help -*- C++ -*-===//

#ifndef FSDP_TRANSFORMS_INFEASIBLECAP_H
#define FSDP_TRANSFORMS_INFEASIBLECAP_H

#include "fsdp/Transforms/ScheduleSearch.h"

namespace fsdp {

/// What a refused cap is compared with, in bytes.
struct CapLimits {
  int64_t capBytes;     // what the cap leaves beside the temporaries
  int64_t scratchBytes; // of temporaries inside operators
  /// Of an arena with a place for every buffer, beside the temporaries; none: none was found.
  std::optional<int64_t> placedBytes;
};

/// Refuses a cap below the least peak that any plan of `problem` has: names the peak, where it
/// occurs, a cap that is enough, what is live there, and, if `findLeastPeak` is given, what would
/// lower it, each with its number.
void reportInfeasibleCap(mlir::ModuleOp module, const StepMemory &memory,
                         const ScheduleProblem &problem, const CapLimits &limits,
                         FindLeastPeak findLeastPeak);

} // namespace fsdp

#endif // FSDP_TRANSFORMS_INFEASIBLECAP_H
