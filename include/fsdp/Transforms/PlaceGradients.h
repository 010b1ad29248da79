//===- PlaceGradients.h - Copies of gradients that cannot stay in place -*- C++ -*-===//

#ifndef FSDP_TRANSFORMS_PLACEGRADIENTS_H
#define FSDP_TRANSFORMS_PLACEGRADIENTS_H

#include "fsdp/Analysis/StepMemory.h"

namespace fsdp {

/// Adds a `clone.default` to every gradient of a sharded module that its operation cannot write
/// into the reduction's input, or that is read after the reduction starts. Without the clone, the
/// copied gradients and their live ranges would depend on when the reduction starts. Results keep
/// their bits. Does nothing in the per-param layout, which copies all gradients when the reduction
/// starts. Returns the number of clones.
unsigned placeGradients(const StepMemory &memory);

} // namespace fsdp

#endif // FSDP_TRANSFORMS_PLACEGRADIENTS_H
