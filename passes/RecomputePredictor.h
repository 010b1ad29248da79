//===- RecomputePredictor.h - What a candidate needs and takes --*- C++ -*-===//

#ifndef FSDP_PASSES_RECOMPUTEPREDICTOR_H
#define FSDP_PASSES_RECOMPUTEPREDICTOR_H

#include "fsdp/Transforms/ScheduleSearch.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "passes/RecomputeCandidate.h"

namespace fsdp {

/// Of a candidate's step, scheduled.
struct RecomputePrediction {
  RecomputeCandidate candidate;
  double makespanNs, computeNs;
};

/// Tries candidates on clones of a captured module with groups, and emits nothing.
class RecomputePredictor {
public:
  /// `activations`: which blocks keep theirs on the host beside those that a candidate marks.
  RecomputePredictor(mlir::ModuleOp captured, const ScheduleSearch &search, FusionChoice kernels,
                     OffloadPolicy activations)
      : captured(captured), search(search), kernels(kernels), activations(activations),
        numBlocks(static_cast<int64_t>(collectFreeBlocks(captured).size())) {}

  /// The least peak of any schedule, in bytes; none where the step cannot be scheduled.
  std::optional<int64_t> findPeak(const RecomputeCandidate &candidate) const;
  /// The sharded step, with kernels; null where that fails.
  mlir::OwningOpRef<mlir::ModuleOp> shard(const RecomputeCandidate &candidate) const;
  /// Searches for a schedule of what shard() has made, which becomes a scheduled step; none where
  /// nothing fits.
  std::optional<FoundSchedule> schedule(mlir::ModuleOp sharded) const;
  /// Of both.
  std::optional<RecomputePrediction> predict(const RecomputeCandidate &candidate) const;

private:
  mlir::OwningOpRef<mlir::ModuleOp> apply(const RecomputeCandidate &candidate) const;
  struct StepChoices getChoices(const RecomputeCandidate &candidate) const;

  mlir::ModuleOp captured;
  const ScheduleSearch &search;
  FusionChoice kernels;
  OffloadPolicy activations;
  int64_t numBlocks; // of which the policy is free
};

} // namespace fsdp

#endif // FSDP_PASSES_RECOMPUTEPREDICTOR_H
