//===- Refit.h - Costs from the timelines of a run ---------------*- C++ -*-===//
//
// The durations of a profile and a network, replaced by those that a training binary's --trace
// shows, as far as it shows them. Where work ran beside other work, the cost model's contention,
// which stays as it is, is removed.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TOOLS_PROFILE_REFIT_H
#define FSDP_TOOLS_PROFILE_REFIT_H

#include "PlannedStep.h"
#include "fsdp/CostModel/Network.h"
#include "fsdp/CostModel/Profile.h"
#include "fsdp/Explain/MeasuredPairs.h"

namespace fsdp::profile {

struct Costs {
  cost::Profile profile;
  cost::Network network;
};

struct Refit {
  Costs costs;
  explain::MeasuredErrors before, after; // of the step's predictions
};

/// `module` is scheduled or planned, `step` is its plan, and `measured` a run of it. A second refit
/// to the same run changes nothing. Errors say how the trace differs from the module; errors of the
/// module are printed as diagnostics.
llvm::Expected<Refit> refit(mlir::ModuleOp module, const PlannedStep &step,
                            const explain::MeasuredRun &measured, const Costs &costs);

} // namespace fsdp::profile

#endif // FSDP_TOOLS_PROFILE_REFIT_H
