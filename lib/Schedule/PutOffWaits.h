//===- PutOffWaits.h - Slack for reductions that take longer ----*- C++ -*-===//

#ifndef FSDP_LIB_SCHEDULE_PUTOFFWAITS_H
#define FSDP_LIB_SCHEDULE_PUTOFFWAITS_H

#include "fsdp/Schedule/Plan.h"

namespace fsdp::schedule {

/// Puts each wait for a reduction off to the launch of the next one or its update, as far as that
/// leaves the plan's peak where it is. A collective begins when the last rank has come to it: the
/// ranks that came earlier go on computing instead. In the simulation, in which ranks do not
/// differ, waiting early can cost nothing. O(n).
void putOffWaits(const Problem &problem, Plan &plan);

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_PUTOFFWAITS_H
