//===- LeaveRoom.h - Memory that plans should leave free -----------*- C++ -*-===//
//
// An arena has holes between its buffers, so a plan whose live bytes reach the cap may need more
// memory than the cap. This file makes plans leave room for the holes where they can.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_LEAVEROOM_H
#define FSDP_SCHEDULE_LEAVEROOM_H

#include "fsdp/Schedule/Problem.h"

#include <span>

namespace fsdp::schedule {

/// Adds `roomBytes`, by operation, to each operation's live bytes, but at most the slack: the bytes
/// between the unavoidable bytes and the cap. Every plan of the changed problem is a plan of the
/// given problem. With as much room as the cap, plans hold almost no bytes that are not needed at
/// once. Returns false and changes nothing if the changed problem has no plan. The problem must
/// have a cap.
bool leaveRoom(Problem &problem, std::span<const int64_t> roomBytes);

} // namespace fsdp::schedule

#endif // FSDP_SCHEDULE_LEAVEROOM_H
