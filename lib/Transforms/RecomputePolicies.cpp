//===- RecomputePolicies.cpp - Recomputation policies of groups -----------===//

#include "fsdp/Transforms/RecomputePolicies.h"

#include "fsdp/Config/ModulePattern.h"

using namespace mlir;
using namespace fsdp;

LogicalResult fsdp::checkBlockOptions(Step &step, const BlockOptions &options) {
  RecomputePolicy policy = options.policy;
  bool isOfBlocks = policy >= RecomputePolicy::Selected;
  if (!isOfBlocks && !options.blocks.empty())
    return step.module.emitError("policy=")
           << stringifyRecomputePolicy(policy) << " has no blocks; it takes no 'blocks'";
  if (policy == RecomputePolicy::Auto)
    return step.module.emitError("policy=auto is decided by fsdp-choose-recompute");
  if (isOfBlocks && step.groups.empty())
    return step.module.emitError("the module has no groups, whose modules are the blocks to "
                                 "recompute; run fsdp-group-parameters first");
  for (GroupOp group : step.groups)
    if (!group.isBlock() &&
        group.getRecompute().value_or(RecomputePolicy::None) >= RecomputePolicy::Selected)
      return group.emitError("the root group says recompute ")
             << stringifyRecomputePolicy(*group.getRecompute())
             << ", expected none or cheap: what the root computes is no block";
  return success();
}

FailureOr<GroupPolicies> fsdp::choosePolicies(Step &step, const BlockOptions &options,
                                              RecomputePolicy limit) {
  auto [policy, blocks] = options;
  GroupPolicies chosen;
  SmallVector<ModulePattern> patterns;
  for (const std::string &text : blocks) {
    llvm::Expected<ModulePattern> pattern = ModulePattern::create(text);
    if (!pattern)
      return step.module.emitError("blocks: ") << llvm::toString(pattern.takeError());
    patterns.push_back(std::move(*pattern));
  }
  SmallVector<bool> hasMatched(patterns.size(), false);
  RecomputePolicy elsewhere = std::min(policy, RecomputePolicy::Cheap);
  chosen.policyOf.assign(step.groups.size() + 1, std::min(elsewhere, limit));
  for (auto [index, group] : llvm::enumerate(step.groups)) {
    if (std::optional<RecomputePolicy> own = group.getRecompute()) {
      // Without a search, `auto` means cheap.
      chosen.policyOf[index] =
          std::min(*own == RecomputePolicy::Auto ? RecomputePolicy::Cheap : *own, limit);
      continue;
    }
    if (!group.isBlock())
      continue;
    bool isNamed = patterns.empty();
    for (auto [pattern, matched] : llvm::zip_equal(patterns, hasMatched))
      for (auto path : group.getModules().getAsRange<StringAttr>())
        if (pattern.match(path.getValue()))
          isNamed = matched = true;
    if (!isNamed)
      continue;
    chosen.policyOf[index] = std::min(policy, limit);
    chosen.numBlocks += policy >= RecomputePolicy::Selected;
  }
  for (auto [text, matched] : llvm::zip_equal(blocks, hasMatched))
    if (!matched)
      return step.module.emitError("blocks: '") << text << "' matches no module of a group";
  return chosen;
}
