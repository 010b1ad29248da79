//===- ScheduleChecks.h - Checks of order and streams -----------*- C++ -*-===//

#ifndef FSDP_ANALYSIS_SCHEDULECHECKS_H
#define FSDP_ANALYSIS_SCHEDULECHECKS_H

#include "fsdp/Analysis/Step.h"

namespace fsdp {

/// All rules of a scheduled step: those of a sharded step, and D1 to D3 of fsdp-verify-scheduled.
/// Diagnoses the first violation.
mlir::LogicalResult checkScheduled(Step &step);

} // namespace fsdp

#endif // FSDP_ANALYSIS_SCHEDULECHECKS_H
