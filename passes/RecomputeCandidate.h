//===- RecomputeCandidate.h - What a search keeps, and where ----*- C++ -*-===//

#ifndef FSDP_PASSES_RECOMPUTECANDIDATE_H
#define FSDP_PASSES_RECOMPUTECANDIDATE_H

#include "fsdp/Transforms/Choices.h"
#include "passes/RecomputeLadder.h"

#include <map>

namespace fsdp {

/// Steps of the ladder, and whether optimizer state is offloaded.
struct RecomputeCandidate {
  llvm::SmallVector<RecomputeStep> steps = {};
  OffloadPolicy offload = OffloadPolicy::None; // of optimizer state
  RecomputeReason reason = RecomputeReason::Time;
  llvm::StringRef whyOffloaded = {}; // of optimizer state, where that is decided

  /// How many blocks recompute by each policy beyond `cheap`.
  std::map<RecomputePolicy, int64_t> countRecomputed() const;
  /// How many blocks keep their activations on the host.
  int64_t countOffloaded() const;
  /// How many blocks are computed again or on the host, and what for. `numBlocks`: of which this is
  /// free.
  std::string describe(int64_t numBlocks, bool isFitting) const;
  /// For several policies at once the attribute says `auto`; each group says which one it follows.
  RecomputeAttr getAttr(mlir::MLIRContext *context) const;
};

} // namespace fsdp

#endif // FSDP_PASSES_RECOMPUTECANDIDATE_H
