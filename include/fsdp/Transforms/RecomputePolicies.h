//===- RecomputePolicies.h - What each group's backward may repeat -*- C++ -*-===//

#ifndef FSDP_TRANSFORMS_RECOMPUTEPOLICIES_H
#define FSDP_TRANSFORMS_RECOMPUTEPOLICIES_H

#include "fsdp/Analysis/Step.h"

namespace fsdp {

/// The options of fsdp-recompute that choose among groups.
struct BlockOptions {
  RecomputePolicy policy;
  llvm::ArrayRef<std::string> blocks; // patterns of modules; none: all groups but the root
};

/// Whether such options make sense together, and for this step. Diagnoses the first contradiction.
mlir::LogicalResult checkBlockOptions(Step &step, const BlockOptions &options);

struct GroupPolicies {
  /// By group; one more for what belongs to none. Never auto.
  std::vector<RecomputePolicy> policyOf;
  /// Of those that do not say so themselves, how many follow `policy`.
  int64_t numBlocks = 0;
};

/// Groups follow what they say themselves, else blocks `policy` and the rest of the step at most
/// cheap; none more than `limit`. Errors where a pattern is malformed or matches nothing.
llvm::FailureOr<GroupPolicies> choosePolicies(Step &step, const BlockOptions &options,
                                              RecomputePolicy limit);

} // namespace fsdp

#endif // FSDP_TRANSFORMS_RECOMPUTEPOLICIES_H
