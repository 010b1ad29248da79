//===- RecomputeCandidate.h - Policies of blocks to try ------- -*- C++ -*-===//

#ifndef FSDP_PASSES_RECOMPUTECANDIDATE_H
#define FSDP_PASSES_RECOMPUTECANDIDATE_H

#include "fsdp/Transforms/Choices.h"
#include "passes/RecomputeLadder.h"

#include <map>

namespace fsdp {

/// A choice to try: steps of the ladder, or one step for each block, and the place of optimizer
/// state.
struct RecomputeCandidate {
  llvm::SmallVector<RecomputeStep> steps = {};
  OffloadPolicy offload = OffloadPolicy::None; // of optimizer state
  RecomputeReason reason = RecomputeReason::Time;
  llvm::StringRef whyOffloaded = {}; // reason, if the place of optimizer state is chosen
  std::string why = {};              // reason, if a comparison gives it; empty: describe() gives it

  /// The number of blocks for each policy but `none`.
  std::map<RecomputePolicy, int64_t> countRecomputed() const;
  /// The number of blocks that keep their activations on the host.
  int64_t countOffloaded() const;
  /// The policy of groups that no step names: the root recomputes nothing if no block does.
  RecomputePolicy getRootPolicy(int64_t numBlocks) const {
    return steps.empty() && numBlocks > 0 ? RecomputePolicy::None : RecomputePolicy::Cheap;
  }
  /// A text with the number of blocks that are recomputed or offloaded, and the reason.
  /// `numBlocks`: the number of blocks whose policy is free.
  std::string describe(int64_t numBlocks, bool isFitting) const;
  /// The attribute for blocks that follow more than `cheap`, if there are any. For several policies
  /// at once it is `auto`; each group records its own policy.
  RecomputeAttr getAttr(mlir::MLIRContext *context, int64_t numBlocks) const;
};

} // namespace fsdp

#endif // FSDP_PASSES_RECOMPUTECANDIDATE_H
