//===- RecomputeChoice.h - How much to recompute ----------------*- C++ -*-===//

#ifndef FSDP_PASSES_RECOMPUTECHOICE_H
#define FSDP_PASSES_RECOMPUTECHOICE_H

#include "fsdp/Transforms/ScheduleSearch.h"
#include "passes/RecomputeCandidate.h"

namespace fsdp {

/// Other choices than recomputation, or requests for them.
struct RecomputeRequest {
  FusionChoice fusion;
  OffloadChoices offload;
};

struct RecomputeChoice {
  RecomputeCandidate candidate;
  std::optional<double> makespanNs = {}; // if a search has predicted it
  bool isFitting = true;
};

/// Keeping results that are cheap to recompute is worth their memory only if the ratio of step
/// times is at most this.
inline constexpr double kWorthKeeping = 0.995;

/// The reason for no recomputation, in a step that takes `share` of the time with `cheap` and fits
/// `limit`.
std::string explainKept(double share, llvm::StringRef limit);

/// The fastest of a few candidates that fit `capBytes` of arena. If none fits, the candidate that
/// needs the least, so that the error names its need. Fails if fsdp-recompute fails, with its
/// diagnostics.
llvm::FailureOr<RecomputeChoice> chooseUnderCap(mlir::ModuleOp captured,
                                                const ScheduleSearch &search,
                                                const RecomputeRequest &request, int64_t capBytes);

/// `cheap` for all blocks, unless `none` is faster and its arena fits `deviceBytes`.
RecomputeChoice chooseWithoutCap(mlir::ModuleOp captured, const ScheduleSearch &search,
                                 const RecomputeRequest &request, int64_t deviceBytes);

} // namespace fsdp

#endif // FSDP_PASSES_RECOMPUTECHOICE_H
