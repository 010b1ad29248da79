//===- GradientRounding.h - Gradients before their cast to reduce_dtype ---===//

#ifndef FSDP_ANALYSIS_GRADIENTROUNDING_H
#define FSDP_ANALYSIS_GRADIENTROUNDING_H

#include "fsdp/IR/Fsdp.h"

namespace fsdp {

/// What a gradient is a copy of. A copy only gives it a place of its own.
mlir::Value skipCopies(mlir::Value gradient);

/// What `gradient`, of a parameter of `group`, was before it was copied, and rounded to the group's
/// `reduce_dtype`; `gradient` itself if it was neither.
///
/// FSDP2 rounds the gradients of the first microbatch, and adds those of the others as they are:
/// each sum is rounded, its summands are not (torch 2.11, _fsdp_param.py,
/// accumulate_unsharded_grad_if_needed).
mlir::Value getUnrounded(GroupOp group, mlir::Value gradient);

} // namespace fsdp

#endif // FSDP_ANALYSIS_GRADIENTROUNDING_H
