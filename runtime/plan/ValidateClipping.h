//===- ValidateClipping.h - Checks the clipping of a plan ----- -*- C++ -*-===//

#ifndef FSDP_RUNTIME_VALIDATECLIPPING_H
#define FSDP_RUNTIME_VALIDATECLIPPING_H

#include "plan/PlanView.h"

namespace fsdp::rt {

/// Checks clipping and the loss scale: a plan that clips or scales its loss computes the gradients'
/// norm once, over all ranks of the shards, makes one clip factor from it, and updates after that;
/// other plans have none of these entries. Part of validatePlan(), which has checked kinds, groups
/// and handles before.
Status validateClipping(const PlanView &plan);

/// True for a number that losses can be scaled by: above 0 and normal in fp32.
bool isLossScale(double scale);

/// True for a norm, or a value of each element, that gradients can be clipped to: above 0 and
/// finite in fp32.
bool isClipLimit(double limit);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_VALIDATECLIPPING_H
