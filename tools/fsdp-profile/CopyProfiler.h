//===- CopyProfiler.h - Measures copies of uncached memory ---- -*- C++ -*-===//

#ifndef FSDP_TOOLS_PROFILE_COPYPROFILER_H
#define FSDP_TOOLS_PROFILE_COPYPROFILER_H

#include "device/Device.h"
#include "fsdp/CostModel/SizedDuration.h"

#include <vector>

namespace fsdp::profile {

/// Measures copies of 4 KiB to 16 MiB between uncached buffers, with `ranks` threads copying at the
/// same time.
std::vector<cost::SizedDuration> profileCopies(int64_t ranks, int samples);

/// The same within a device's memory. The device must have timed events. Errors are the device's.
rt::Result<std::vector<cost::SizedDuration>> profileCopies(rt::Device &device, int samples);

} // namespace fsdp::profile

#endif // FSDP_TOOLS_PROFILE_COPYPROFILER_H
