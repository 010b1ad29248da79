//===- RecomputeCandidate.h - What a search keeps, and where ----*- C++ -*-===//

#ifndef FSDP_PASSES_RECOMPUTECANDIDATE_H
#define FSDP_PASSES_RECOMPUTECANDIDATE_H

#include "fsdp/Transforms/Choices.h"
#include "passes/RecomputeLadder.h"

#include <map>

namespace fsdp {

/// Steps of the ladder, or one for each block, and whether optimizer state is offloaded.
struct RecomputeCandidate {
  llvm::SmallVector<RecomputeStep> steps = {};
  OffloadPolicy offload = OffloadPolicy::None; // of optimizer state
  RecomputeReason reason = RecomputeReason::Time;
  llvm::StringRef whyOffloaded = {}; // of optimizer state, where that is decided
  std::string why = {};              // where a comparison says it; empty: describe() does

  /// How many blocks recompute by each policy but `none`.
  std::map<RecomputePolicy, int64_t> countRecomputed() const;
  /// How many blocks keep their activations on the host.
  int64_t countOffloaded() const;
  /// What groups follow that no step names: the root computes nothing again where no block does.
  RecomputePolicy getRootPolicy(int64_t numBlocks) const {
    return steps.empty() && numBlocks > 0 ? RecomputePolicy::None : RecomputePolicy::Cheap;
  }
  /// How many blocks are computed again or on the host, and what for. `numBlocks`: of which this is
  /// free.
  std::string describe(int64_t numBlocks, bool isFitting) const;
  /// Of blocks beyond `cheap`, if there are any. For several policies at once the attribute says
  /// `auto`; each group says which one it follows.
  RecomputeAttr getAttr(mlir::MLIRContext *context, int64_t numBlocks) const;
};

} // namespace fsdp

#endif // FSDP_PASSES_RECOMPUTECANDIDATE_H
