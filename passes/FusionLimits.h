//===- FusionLimits.h - Limits on the size of kernels --------- -*- C++ -*-===//

#ifndef FSDP_PASSES_FUSIONLIMITS_H
#define FSDP_PASSES_FUSIONLIMITS_H

#include <cstddef>

namespace fsdp {

/// Limits that keep compilation linear, and the addresses of a kernel in registers.
inline constexpr std::size_t kMostFusedCalls = 48, kMostFusedTensors = 24;

} // namespace fsdp

#endif // FSDP_PASSES_FUSIONLIMITS_H
