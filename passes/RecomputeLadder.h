//===- RecomputeLadder.h - What keeping a little less costs -----*- C++ -*-===//

#ifndef FSDP_PASSES_RECOMPUTELADDER_H
#define FSDP_PASSES_RECOMPUTELADDER_H

#include "fsdp/CostModel/CostModel.h"
#include "fsdp/IR/Fsdp.h"
#include "fsdp/Transforms/Choices.h"

namespace fsdp {

/// From here on one group's block recomputes by this policy, or keeps its activations on the host.
struct RecomputeStep {
  mlir::StringAttr group;
  std::optional<RecomputePolicy> policy; // none: that of the block is not free
  bool isOffloaded = false;
  double addedNs = 0;   // of what is computed again, or of copies that nothing hides
  double nsPerByte = 0; // for each byte less that is kept in the arena from the forward
};

/// The groups whose policy is free: blocks that do not say it themselves.
llvm::SmallVector<GroupOp> collectFreeBlocks(mlir::ModuleOp captured);

/// All of these become `cheap`.
llvm::SmallVector<RecomputeStep> listCheapSteps(mlir::ModuleOp captured);

/// The steps from `cheap` everywhere to the least memory, those first that take the least time for
/// each byte saved. Whatever a byte is worth at the step's peak, a prefix of the ladder is then the
/// best choice of policies for it: of each block the ladder has the lower convex hull of time over
/// bytes, both of the fused step: kernels compute some of what is kept from what else is. Alike
/// blocks are in the order of the groups. Before these stand, in such an order, the steps of free
/// blocks from `none` to `cheap`, one for each.
///
/// With `offloaded` blocks that do not say where their activations lie may keep them on the host.
/// As many recompute by that policy and no more as the forward hides the copies of, when it hides
/// those of all blocks under `full`, too; they come first, spread over the model. Copies of other
/// blocks are exposed. (Counted in the fused step, which keeps less than is stored before fusion.)
/// Fails where fsdp-recompute does, with its diagnostics.
llvm::FailureOr<llvm::SmallVector<RecomputeStep>>
findRecomputeLadder(mlir::ModuleOp captured, const cost::CostModel &costs, FusionChoice fusion,
                    std::optional<RecomputePolicy> offloaded);

/// Writes what is decided behind these steps into the groups. Free blocks without a step recompute
/// nothing; other groups stay.
void applySteps(mlir::ModuleOp captured, llvm::ArrayRef<RecomputeStep> steps);

} // namespace fsdp

#endif // FSDP_PASSES_RECOMPUTELADDER_H
