//===- RecomputePredictor.h - Memory and time of a candidate -- -*- C++ -*-===//

#ifndef FSDP_PASSES_RECOMPUTEPREDICTOR_H
#define FSDP_PASSES_RECOMPUTEPREDICTOR_H

#include "fsdp/Transforms/ScheduleSearch.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "passes/RecomputeCandidate.h"

namespace fsdp {

/// Prediction of a candidate's scheduled step.
struct RecomputePrediction {
  RecomputeCandidate candidate;
  double makespanNs, computeNs;
  double boundNs;            // 0: unknown, as nothing was searched for
  schedule::Problem problem; // with the cap of the arena

  /// An estimate of the least step time after `more` steps, in nanoseconds: the bound of the
  /// problem in which backwards take their time longer, under a cap that is what they free larger.
  double estimateNs(llvm::ArrayRef<RecomputeStep> more) const;
};

/// Tries candidates on clones of a captured module with groups, and emits no diagnostics.
class RecomputePredictor {
public:
  /// `activations`: the blocks that keep activations on the host, besides those that a candidate
  /// marks.
  RecomputePredictor(mlir::ModuleOp captured, const ScheduleSearch &search, FusionChoice kernels,
                     OffloadPolicy activations)
      : captured(captured), search(search), kernels(kernels), activations(activations),
        numBlocks(static_cast<int64_t>(collectFreeBlocks(captured).size())) {}

  /// The least peak of any schedule, in bytes; none if the step cannot be scheduled.
  std::optional<int64_t> findPeak(const RecomputeCandidate &candidate) const;
  /// The sharded step, with kernels; null on failure.
  mlir::OwningOpRef<mlir::ModuleOp> shard(const RecomputeCandidate &candidate) const;
  /// Searches for a schedule of a step from shard(), which becomes a scheduled step; none if
  /// nothing fits.
  std::optional<FoundSchedule> schedule(mlir::ModuleOp sharded) const;
  /// shard() and schedule().
  std::optional<RecomputePrediction> predict(const RecomputeCandidate &candidate) const;

private:
  mlir::OwningOpRef<mlir::ModuleOp> apply(const RecomputeCandidate &candidate) const;
  struct StepChoices getChoices(const RecomputeCandidate &candidate) const;

  mlir::ModuleOp captured;
  const ScheduleSearch &search;
  FusionChoice kernels;
  OffloadPolicy activations;
  int64_t numBlocks; // whose policy is free
};

} // namespace fsdp

#endif // FSDP_PASSES_RECOMPUTEPREDICTOR_H
