//===- HostCopySchedule.h - Schedule of host copies -------------*- C++ -*-===//

#ifndef FSDP_LIB_ANALYSIS_HOSTCOPYSCHEDULE_H
#define FSDP_LIB_ANALYSIS_HOSTCOPYSCHEDULE_H

#include "ProblemBuilder.h"

namespace fsdp {

/// True for a fetched copy, whose ranges follow from the schedule of host copies.
bool isFetched(const LiveRange &range);

/// Adds each copy's bytes to the ranges of `step`.
void addHostRanges(ScheduleProblem &step, const StepMemory &memory);

/// Positions between which a copy may move.
struct CopyBounds {
  uint32_t earliestFetch; // launch
  uint32_t latestStore;   // wait
};

/// Starts fetches early enough, and waits for stores late enough, for computation to hide them, as
/// far as every operation in between has room under the problem's cap and the least peak of any
/// plan stays within it. Also finds out when chunks are on the host (Use::storedBy), if all that
/// may be there are stored. The rest of the problem must be complete, with copies where they need
/// the least memory.
void spreadHostCopies(ScheduleProblem &step, llvm::ArrayRef<CopyBounds> bounds,
                      const StepMemory &memory, const cost::CostModel &costs,
                      ProblemBuilder &builder);

/// Adds to durations the time that computation waits for copies, assuming that it waits for nothing
/// else but the first gather of each group. There are two links, one each way; the copies of a link
/// run one after another.
void chargeHostCopies(ScheduleProblem &step, const StepMemory &memory,
                      const cost::CostModel &costs);

} // namespace fsdp

#endif // FSDP_LIB_ANALYSIS_HOSTCOPYSCHEDULE_H
