//===- CopyProfiler.h - What copies cost out of caches ------------*- C++ -*-===//

#ifndef FSDP_TOOLS_PROFILE_COPYPROFILER_H
#define FSDP_TOOLS_PROFILE_COPYPROFILER_H

#include "device/Device.h"
#include "fsdp/CostModel/SizedDuration.h"

#include <vector>

namespace fsdp::profile {

/// Copies of 4 KiB to 16 MiB that were not in a cache, as `ranks` threads do at the same time.
std::vector<cost::SizedDuration> profileCopies(int64_t ranks, int samples);

/// The same within the memory of a device, whose events have times. Errors come from the device.
rt::Result<std::vector<cost::SizedDuration>> profileCopies(rt::Device &device, int samples);

} // namespace fsdp::profile

#endif // FSDP_TOOLS_PROFILE_COPYPROFILER_H
