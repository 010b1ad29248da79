//===- SampledProfile.h - A profile from samples of entries ------*- C++ -*-===//

#ifndef FSDP_TOOLS_PROFILE_SAMPLEDPROFILE_H
#define FSDP_TOOLS_PROFILE_SAMPLEDPROFILE_H

#include "PlannedStep.h"
#include "RankProfiler.h"
#include "fsdp/CostModel/Profile.h"

namespace fsdp::profile {

/// Sorts the entries' durations into calls, kernels, updates and sums of the step's parts, and adds
/// these to a profile without any. Entries without samples are left out.
void addSamples(const PlannedStep &step, const std::vector<RankSamples> &ranks,
                cost::Profile &profile);

} // namespace fsdp::profile

#endif // FSDP_TOOLS_PROFILE_SAMPLEDPROFILE_H
