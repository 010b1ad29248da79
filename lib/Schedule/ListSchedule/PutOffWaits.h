//===- PutOffWaits.h - Slack for reductions that take longer ----*- C++ -*-===//

#ifndef FSDP_LIB_SCHEDULE_PUTOFFWAITS_H
#define FSDP_LIB_SCHEDULE_PUTOFFWAITS_H

#include "fsdp/Schedule/Plan.h"

namespace fsdp::schedule {

/// Moves each wait for a reduction to the launch of the next reduction or to its update, whichever
/// comes first, as long as the plan's peak stays the same. A collective begins when the last rank
/// reaches it; with a later wait, ranks that are early go on computing. The simulation does not see
/// this gain, since all its ranks are equally fast. O(n).
void putOffWaits(const Problem &problem, Plan &plan);

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_PUTOFFWAITS_H
