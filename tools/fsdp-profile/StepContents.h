//===- StepContents.h - Contents for the tensors of a step -------*- C++ -*-===//
//
// Kernels take other time on zeros, denormals and indices that are all alike; a step that is run to
// be measured gets contents like a real one's: parameters that keep the sizes of activations, and
// indices spread over their tables.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TOOLS_PROFILE_STEPCONTENTS_H
#define FSDP_TOOLS_PROFILE_STEPCONTENTS_H

#include "PlannedStep.h"
#include "Status.h"
#include "plan/PlanView.h"

#include <functional>

namespace fsdp::profile {

/// The bytes of every input of the plan, in its order. Integers lie below the size of what they
/// index.
std::vector<std::vector<std::byte>> makeInputs(const PlannedStep &step, const rt::PlanView &plan,
                                               unsigned seed);

/// Puts bytes to a place in the arena, or in the host's arena.
using WriteBytes =
    std::function<rt::Status(bool isOnHost, int64_t place, std::span<const std::byte> bytes)>;

/// Makes the contents of the parameters' shards of `rank`, and of the buffers. Errors are
/// those of `write`.
rt::Status fillState(const rt::PlanView &plan, unsigned rank, const WriteBytes &write);

} // namespace fsdp::profile

#endif // FSDP_TOOLS_PROFILE_STEPCONTENTS_H
