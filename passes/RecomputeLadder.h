//===- RecomputeLadder.h - What recomputing a little more costs -*- C++ -*-===//

#ifndef FSDP_PASSES_RECOMPUTELADDER_H
#define FSDP_PASSES_RECOMPUTELADDER_H

#include "fsdp/CostModel/CostModel.h"
#include "fsdp/IR/Fsdp.h"
#include "fsdp/Transforms/Choices.h"

namespace fsdp {

/// One group's block recomputes by this policy from here on.
struct RecomputeStep {
  mlir::StringAttr group;
  RecomputePolicy policy;
  double addedNs;   // of what is computed again
  double nsPerByte; // for each byte less that is kept from the forward
};

/// The groups whose policy is free: blocks that do not say it themselves.
llvm::SmallVector<GroupOp> collectFreeBlocks(mlir::ModuleOp captured);

/// The steps from `cheap` everywhere to the least memory, those first that take the least time for
/// each byte saved. Whatever a byte is worth at the step's peak, a prefix of the ladder is then the
/// best choice of policies for it: of each block the ladder has the lower convex hull of time over
/// bytes, both of the fused step: kernels compute some of what is kept from what else is. Alike
/// blocks are in the order of the groups. Fails where fsdp-recompute does, with its diagnostics.
llvm::FailureOr<llvm::SmallVector<RecomputeStep>>
findRecomputeLadder(mlir::ModuleOp captured, const cost::CostModel &costs, FusionChoice fusion);

/// Writes the policies behind these steps into the groups; the others' stay.
void applySteps(mlir::ModuleOp captured, llvm::ArrayRef<RecomputeStep> steps);

} // namespace fsdp

#endif // FSDP_PASSES_RECOMPUTELADDER_H
