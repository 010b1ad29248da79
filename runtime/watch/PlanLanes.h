//===- PlanLanes.h - A plan's communicators as lanes of a run ----*- C++ -*-===//

#ifndef FSDP_RUNTIME_WATCH_PLANLANES_H
#define FSDP_RUNTIME_WATCH_PLANLANES_H

#include "comm/Communicator.h"
#include "plan/PlanView.h"

namespace fsdp::rt {

/// The lane on which a collective of a plan is issued. Lane 0 is control.
inline unsigned laneOf(const fsdp_entry &start) { return kControlLane + 1 + start.communicator; }

/// The plan's communicator of a lane other than control.
inline const fsdp_communicator &communicatorOf(const PlanView &plan, unsigned lane) {
  return plan.communicators()[lane - (kControlLane + 1)];
}

/// The lanes that a plan needs, beside control.
std::vector<LaneShape> lanesOf(const PlanView &plan);

/// An error if a run of these lanes cannot execute the plan.
Status checkLanes(const PlanView &plan, const Communicator &communicator);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_WATCH_PLANLANES_H
