//===- StepContents.h - Contents for the tensors of a step -------*- C++ -*-===//
//
// The time of kernels depends on values: zeros, denormals and equal indices would distort it. So a
// measured step gets contents like a real step's: parameters that preserve the magnitude of
// activations, and indices spread over their tables.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TOOLS_PROFILE_STEPCONTENTS_H
#define FSDP_TOOLS_PROFILE_STEPCONTENTS_H

#include "PlannedStep.h"
#include "Status.h"
#include "plan/PlanView.h"

#include <functional>

namespace fsdp::profile {

/// Makes the bytes of every input of the plan, in the plan's order. Integers are below the size of
/// the dimension that they index.
std::vector<std::vector<std::byte>> makeInputs(const PlannedStep &step, const rt::PlanView &plan,
                                               unsigned seed);

/// Writes bytes at an offset of the arena, or of the host's arena.
using WriteBytes =
    std::function<rt::Status(bool isOnHost, int64_t place, std::span<const std::byte> bytes)>;

/// Writes contents for the parameter shards of `rank`, and for the buffers. Errors are those of
/// `write`.
rt::Status fillState(const rt::PlanView &plan, unsigned rank, const WriteBytes &write);

} // namespace fsdp::profile

#endif // FSDP_TOOLS_PROFILE_STEPCONTENTS_H
