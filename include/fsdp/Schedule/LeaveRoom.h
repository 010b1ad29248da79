//===- LeaveRoom.h - Memory that plans should leave free -----------*- C++ -*-===//
//
// An arena has holes between its buffers, so that a plan whose live bytes reach the cap may need
// more than it. Where a plan can do with less than the cap, it is made to.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_LEAVEROOM_H
#define FSDP_SCHEDULE_LEAVEROOM_H

#include "fsdp/Schedule/Problem.h"

#include <span>

namespace fsdp::schedule {

/// Adds room to what is live while each operation runs: `roomBytes`, by operation, or, where the
/// cap leaves less beside what no plan can avoid, as much as that. Plans of the changed problem are
/// plans of the given one; with as much room as the cap, they hold next to nothing that is not
/// needed at once. False, and nothing changed, where no plan would be left. The problem must have a
/// cap.
bool leaveRoom(Problem &problem, std::span<const int64_t> roomBytes);

} // namespace fsdp::schedule

#endif // FSDP_SCHEDULE_LEAVEROOM_H
