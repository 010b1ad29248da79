//===- RecomputeChoice.h - How much to recompute ----------------*- C++ -*-===//

#ifndef FSDP_PASSES_RECOMPUTECHOICE_H
#define FSDP_PASSES_RECOMPUTECHOICE_H

#include "fsdp/Transforms/ScheduleSearch.h"
#include "passes/RecomputeCandidate.h"

namespace fsdp {

/// What is decided beside recomputation, or asked for.
struct RecomputeRequest {
  FusionChoice fusion;
  OffloadChoices offload;
};

struct RecomputeChoice {
  RecomputeCandidate candidate;
  std::optional<double> makespanNs = {}; // where a search has predicted it
  bool isFitting = true;
};

/// To keep what is cheap to recompute must be faster by this ratio of times: it takes bytes that
/// nobody may ask for.
inline constexpr double kWorthKeeping = 0.995;

/// Why nothing is computed again, in a step that takes `share` of the time with `cheap` and fits
/// `limit`.
std::string explainKept(double share, llvm::StringRef limit);

/// The fastest of a few candidates that fit `capBytes` of arena. Where nothing does, what needs the
/// least, so that a refusal names that. Fails as fsdp-recompute does, with its diagnostics.
llvm::FailureOr<RecomputeChoice> chooseUnderCap(mlir::ModuleOp captured,
                                                const ScheduleSearch &search,
                                                const RecomputeRequest &request, int64_t capBytes);

/// `cheap` of all blocks, unless nothing is faster and its arena fits `deviceBytes`.
RecomputeChoice chooseWithoutCap(mlir::ModuleOp captured, const ScheduleSearch &search,
                                 const RecomputeRequest &request, int64_t deviceBytes);

} // namespace fsdp

#endif // FSDP_PASSES_RECOMPUTECHOICE_H
