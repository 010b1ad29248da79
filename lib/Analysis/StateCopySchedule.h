//===- StateCopySchedule.h - When optimizer state is copied -----*- C++ -*-===//

#ifndef FSDP_LIB_ANALYSIS_STATECOPYSCHEDULE_H
#define FSDP_LIB_ANALYSIS_STATECOPYSCHEDULE_H

#include "ProblemBuilder.h"

namespace fsdp {

/// True for what is fetched for an update.
bool isFetchedState(const LiveRange &range);

/// Adds each copy's bytes to the ranges of `step`.
void addStateRanges(ScheduleProblem &step, const StepMemory &memory);

/// Starts fetches early enough, and waits for stores late enough, that computation hides them,
/// where every operation in between has room for the state under the cap of the problem, and the
/// least peak of any plan stays within it. The rest of the problem is complete.
void spreadStateCopies(ScheduleProblem &step, const StepMemory &memory,
                       const cost::CostModel &costs, ProblemBuilder &builder);

/// Adds to durations what computation waits for copies, were it never to wait for anything else.
/// Two links, one each way, on which copies follow one another.
void chargeStateCopies(ScheduleProblem &step, const StepMemory &memory,
                       const cost::CostModel &costs);

} // namespace fsdp

#endif // FSDP_LIB_ANALYSIS_STATECOPYSCHEDULE_H
