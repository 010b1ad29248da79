//===- HostCopySchedule.h - When copies to and from the host run -*- C++ -*-===//

#ifndef FSDP_LIB_ANALYSIS_HOSTCOPYSCHEDULE_H
#define FSDP_LIB_ANALYSIS_HOSTCOPYSCHEDULE_H

#include "ProblemBuilder.h"

namespace fsdp {

/// True for what is fetched from the host; its ranges are those of the copies.
bool isFetched(const LiveRange &range);

/// Adds each copy's bytes to the ranges of `step`.
void addHostRanges(ScheduleProblem &step, const StepMemory &memory);

/// Positions between which a copy may move.
struct CopyBounds {
  uint32_t earliestFetch; // launch
  uint32_t latestStore;   // wait
};

/// Starts fetches early enough, and waits for stores late enough, that computation hides them,
/// where every operation in between has room under the cap of the problem, and the least peak of
/// any plan stays within it. The rest of the problem is complete, and copies stand where they take
/// the least memory.
void spreadHostCopies(ScheduleProblem &step, llvm::ArrayRef<CopyBounds> bounds,
                      const StepMemory &memory, const cost::CostModel &costs,
                      ProblemBuilder &builder);

/// Adds to durations what computation waits for copies, were it never to wait for anything else.
/// Two links, one each way, on which copies follow one another.
void chargeHostCopies(ScheduleProblem &step, const StepMemory &memory,
                      const cost::CostModel &costs);

} // namespace fsdp

#endif // FSDP_LIB_ANALYSIS_HOSTCOPYSCHEDULE_H
