//===- RecomputePolicies.h - Recomputation policies of groups ---*- C++ -*-===//

#ifndef FSDP_TRANSFORMS_RECOMPUTEPOLICIES_H
#define FSDP_TRANSFORMS_RECOMPUTEPOLICIES_H

#include "fsdp/Analysis/Step.h"

namespace fsdp {

/// The options of fsdp-recompute that select groups.
struct BlockOptions {
  RecomputePolicy policy;
  llvm::ArrayRef<std::string> blocks; // patterns of modules; empty: all groups but the root
};

/// Checks the options against each other and against the step. Diagnoses the first contradiction.
mlir::LogicalResult checkBlockOptions(Step &step, const BlockOptions &options);

struct GroupPolicies {
  /// By group, and last for operators outside of all groups. Never auto.
  std::vector<RecomputePolicy> policyOf;
  /// How many groups without a policy of their own follow BlockOptions::policy.
  int64_t numBlocks = 0;
};

/// Groups follow their own policy, selected blocks `policy`, and the rest of the step at most
/// cheap; none exceeds `limit`. Errors for a pattern that is malformed or matches nothing.
llvm::FailureOr<GroupPolicies> choosePolicies(Step &step, const BlockOptions &options,
                                              RecomputePolicy limit);

} // namespace fsdp

#endif // FSDP_TRANSFORMS_RECOMPUTEPOLICIES_H
