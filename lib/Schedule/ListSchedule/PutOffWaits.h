//===- PutOffWaits.h - Slack for reductions that take longer ----*- C++ -*-===//

#ifndef FSDP_LIB_SCHEDULE_PUTOFFWAITS_H
#define FSDP_LIB_SCHEDULE_PUTOFFWAITS_H

#include "fsdp/Schedule/Plan.h"

namespace fsdp::schedule {

/// Moves each wait for a reduction towards the launch of the next reduction or its own update,
/// whichever comes first, as far as the plan's peak stays the same. A collective begins when the
/// last rank reaches it; with a later wait, the other ranks go on computing in the meantime. The
/// simulation does not show this gain, since all its ranks are equally fast. O(n).
void putOffWaits(const Problem &problem, Plan &plan);

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_PUTOFFWAITS_H
