//===- ScheduleEstimate.h - Estimates of a search's result ------*- C++ -*-===//

#ifndef FSDP_TRANSFORMS_SCHEDULEESTIMATE_H
#define FSDP_TRANSFORMS_SCHEDULEESTIMATE_H

#include "fsdp/CostModel/CostModel.h"
#include "mlir/IR/BuiltinOps.h"

namespace fsdp {

/// Estimates for a step without a memory cap.
struct ScheduleEstimate {
  double boundNs = 0;    // the quick lower bound
  double makespanNs = 0; // of the schedule that starts everything as soon as possible
  /// Live bytes: the least peak of any schedule, and the peak with everything gathered at once and
  /// all gradients waiting.
  int64_t leastPeakBytes = 0, mostPeakBytes = 0;
};

/// For a sharded module, which is then prepared for a search but not scheduled. Takes a fraction of
/// a search's time. Errors are those of a search.
llvm::FailureOr<ScheduleEstimate> estimateSchedule(mlir::ModuleOp sharded,
                                                   const cost::CostModel &costs);

} // namespace fsdp

#endif // FSDP_TRANSFORMS_SCHEDULEESTIMATE_H
