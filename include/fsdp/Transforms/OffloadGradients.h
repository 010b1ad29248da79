//===- OffloadGradients.h - Waiting gradients on the host -------*- C++ -*-===//

#ifndef FSDP_TRANSFORMS_OFFLOADGRADIENTS_H
#define FSDP_TRANSFORMS_OFFLOADGRADIENTS_H

#include "fsdp/Analysis/Step.h"

namespace fsdp {

/// Inserts copies to the host and back for reduced gradients that wait long, of groups whose
/// parameters are on the host, into a scheduled step. Those that have copies stay as they are.
void offloadGradients(Step &step);

} // namespace fsdp

#endif // FSDP_TRANSFORMS_OFFLOADGRADIENTS_H
