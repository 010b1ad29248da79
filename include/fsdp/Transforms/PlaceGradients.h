//===- PlaceGradients.h - Copies of gradients that cannot stay in place -*- C++ -*-===//

#ifndef FSDP_TRANSFORMS_PLACEGRADIENTS_H
#define FSDP_TRANSFORMS_PLACEGRADIENTS_H

#include "fsdp/Analysis/StepMemory.h"

namespace fsdp {

/// Makes every gradient of a sharded module one that its operation can write into its reduction's
/// input and that nothing reads once the reduction starts, by an explicit `clone.default` where it
/// is neither: otherwise what is copied and how long it lives would depend on when the reduction
/// starts. The bits are the same. In the per-param layout, which copies all gradients when the
/// reduction starts, it does nothing. Returns the number of copies.
unsigned placeGradients(const StepMemory &memory);

} // namespace fsdp

#endif // FSDP_TRANSFORMS_PLACEGRADIENTS_H
