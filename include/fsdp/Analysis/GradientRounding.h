//===- GradientRounding.h - Gradients before their cast to reduce_dtype ---===//

#ifndef FSDP_ANALYSIS_GRADIENTROUNDING_H
#define FSDP_ANALYSIS_GRADIENTROUNDING_H

#include "fsdp/IR/Fsdp.h"

namespace fsdp {

/// The value behind all copies of `gradient`. A copy only gives the gradient a buffer of its own.
mlir::Value skipCopies(mlir::Value gradient);

/// The gradient of a parameter of `group` before it was copied and rounded to the group's
/// `reduce_dtype`; `gradient` itself if neither happened.
///
/// FSDP2 rounds the gradient of the first microbatch and adds the gradients of later microbatches
/// unrounded: it rounds each sum, not its summands (torch 2.11, _fsdp_param.py,
/// accumulate_unsharded_grad_if_needed).
mlir::Value getUnrounded(GroupOp group, mlir::Value gradient);

} // namespace fsdp

#endif // FSDP_ANALYSIS_GRADIENTROUNDING_H
