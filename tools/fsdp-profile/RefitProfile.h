//===- RefitProfile.h - A profile with the durations of a run ----*- C++ -*-===//

#ifndef FSDP_TOOLS_PROFILE_REFITPROFILE_H
#define FSDP_TOOLS_PROFILE_REFITPROFILE_H

#include "PlannedStep.h"
#include "fsdp/CostModel/Profile.h"
#include "fsdp/Explain/Undisturbed.h"
#include "llvm/ADT/ArrayRef.h"

namespace fsdp::profile {

/// One execution of an entry of the plan.
struct EntryRun {
  uint32_t entry;
  explain::Undisturbed duration;
};

/// The profile with the durations and spreads of calls, kernels and updates that have run. For a
/// call that has run with nothing beside it, only these executions count; for others, those whose
/// undisturbed duration is known. All else stays, also what the profile lacks: of a call that is
/// not in it, temporaries are unknown.
cost::Profile refitProfile(cost::Profile profile, const PlannedStep &step,
                           llvm::ArrayRef<EntryRun> runs);

} // namespace fsdp::profile

#endif // FSDP_TOOLS_PROFILE_REFITPROFILE_H
