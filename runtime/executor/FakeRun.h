//===- FakeRun.h - Options of a run without peers ------------- -*- C++ -*-===//

#ifndef FSDP_RUNTIME_FAKERUN_H
#define FSDP_RUNTIME_FAKERUN_H

#include "comm/FakeCommunicator.h"
#include "plan/PlanView.h"

namespace fsdp::rt {

/// Options for the collectives of a plan's step, without a bandwidth.
FakeOptions fakeOptionsOf(const PlanView &plan);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_FAKERUN_H
