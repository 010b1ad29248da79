//===- RecomputeLadder.h - Steps towards more recomputation --- -*- C++ -*-===//

#ifndef FSDP_PASSES_RECOMPUTELADDER_H
#define FSDP_PASSES_RECOMPUTELADDER_H

#include "fsdp/CostModel/CostModel.h"
#include "fsdp/IR/Fsdp.h"
#include "fsdp/Transforms/Choices.h"

namespace fsdp {

/// A step of the ladder: changes one block to this policy, or moves its activations to the host.
struct RecomputeStep {
  mlir::StringAttr group;
  std::optional<RecomputePolicy> policy; // none: the block's policy is not free
  bool isOffloaded = false;
  double addedNs = 0;   // time of recomputation, or of copies that nothing hides
  double nsPerByte = 0; // per byte saved of what the arena keeps from the forward

  /// Whether the steps do the same; their prices may differ.
  bool operator==(const RecomputeStep &other) const {
    return group == other.group && policy == other.policy && isOffloaded == other.isOffloaded;
  }
};

/// The groups whose policy is free: blocks without a policy of their own.
llvm::SmallVector<GroupOp> collectFreeBlocks(mlir::ModuleOp captured);

/// One step to `cheap` for each of these groups.
llvm::SmallVector<RecomputeStep> listCheapSteps(mlir::ModuleOp captured);

/// The steps from `cheap` everywhere to the least memory, in the order of time per byte saved. For
/// each block the ladder follows the lower convex hull of time over bytes. So for any price of a
/// byte at the step's peak, the best choice of policies is a prefix of the ladder. Time and bytes
/// are those of the fused step, in which kernels compute some kept values from others. Equal blocks
/// are in the order of the groups. The steps of free blocks from `none` to `cheap`, one for each,
/// precede these in the same kind of order.
///
/// With `offloaded`, blocks without a request for the place of their activations may keep them on
/// the host. The first steps offload blocks, spread over the model, that recompute by the policy
/// `offloaded` and no more: as many as have their copies hidden by the forward together with the
/// copies of all blocks under `full`. Copies of other blocks are exposed. (Costs are of the fused
/// step, which keeps less than is stored before fusion.) Fails if fsdp-recompute fails, with its
/// diagnostics.
llvm::FailureOr<llvm::SmallVector<RecomputeStep>>
findRecomputeLadder(mlir::ModuleOp captured, const cost::CostModel &costs, FusionChoice fusion,
                    std::optional<RecomputePolicy> offloaded);

/// Writes the outcome of these steps into the groups. Free blocks without a step recompute nothing;
/// other groups stay unchanged.
void applySteps(mlir::ModuleOp captured, llvm::ArrayRef<RecomputeStep> steps);

} // namespace fsdp

#endif // FSDP_PASSES_RECOMPUTELADDER_H
