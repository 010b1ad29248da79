//===- ScheduleEstimate.h - What a search would find, roughly ---*- C++ -*-===//

#ifndef FSDP_TRANSFORMS_SCHEDULEESTIMATE_H
#define FSDP_TRANSFORMS_SCHEDULEESTIMATE_H

#include "fsdp/CostModel/CostModel.h"
#include "mlir/IR/BuiltinOps.h"

namespace fsdp {

/// Of a step without a memory cap.
struct ScheduleEstimate {
  double boundNs = 0;    // by the quick bound
  double makespanNs = 0; // where everything starts as soon as possible
  /// Live bytes: no schedule needs less; none more than with everything gathered at once and all
  /// gradients waiting.
  int64_t leastPeakBytes = 0, mostPeakBytes = 0;
};

/// Of a sharded module, which is prepared for a search and not scheduled. Takes a fraction of a
/// search's time. Errors are those of a search.
llvm::FailureOr<ScheduleEstimate> estimateSchedule(mlir::ModuleOp sharded,
                                                   const cost::CostModel &costs);

} // namespace fsdp

#endif // FSDP_TRANSFORMS_SCHEDULEESTIMATE_H
