//===- Accumulation.cpp - Checks of gradient accumulation -----------------===//

#include "fsdp/Config/ShardingConfig.h"

using namespace fsdp;

/// Describes the first error in one set of choices; nullopt without error.
static std::optional<std::string> check(std::optional<GradientSync> sync,
                                        std::optional<bool> reshardAfterBackward,
                                        int64_t microbatches, bool hasReplicas) {
  if (microbatches == 1 && sync)
    return "gradient_sync is for several microbatches, but there is one (--microbatches)";
  if (microbatches == 1 && reshardAfterBackward)
    return "reshard_after_backward is for several microbatches, but there is one (--microbatches)";
  if (sync == GradientSync::ReduceScatter && !hasReplicas)
    return "gradient_sync is reduce_scatter, but the mesh has no axis of replicas: say each or "
           "last";
  return std::nullopt;
}

llvm::Error fsdp::checkAccumulation(const ShardingConfig &config) {
  // More microbatches are probably a mistake: each repeats the whole step.
  constexpr int64_t most = 1024;
  const Accumulation &accumulation = config.accumulation;
  auto fail = [&](const llvm::Twine &message) {
    return failAt(config, accumulation.place, message);
  };
  int64_t microbatches = accumulation.microbatches.value_or(1);
  if (microbatches < 1 || microbatches > most)
    return fail("microbatches is " + llvm::Twine(microbatches) + ", expected 1 to " +
                llvm::Twine(most));
  if (microbatches == 1 && accumulation.loss)
    return fail(
        "the loss of microbatches is for several of them, but there is one (--microbatches)");
  bool isInterleaved = accumulation.order == MicrobatchOrder::OneForwardOneBackward;
  if (microbatches == 1 && accumulation.order)
    return fail(
        "the order of microbatches is for several of them, but there is one (--microbatches)");
  if (isInterleaved && !accumulation.stages)
    return fail("order 1f1b interleaves stages, but accumulation has none: name "
                "the modules with which they begin (stages, --stages)");
  if (!isInterleaved && accumulation.stages)
    return fail("stages are for order 1f1b (--microbatch-order 1f1b), but the order is sequential");
  const std::vector<GroupRule> rules = config.groups.value_or(std::vector<GroupRule>());
  auto hasReplicas = [&](const GroupOptions &group) {
    const std::optional<MeshSpec> &mesh = group.mesh ? group.mesh : config.mesh;
    return mesh && mesh->hasReplicas();
  };
  // The file's default for all groups takes effect in groups with replicas.
  bool hasAny =
      hasReplicas({}) || hasReplicas(config.root) ||
      llvm::any_of(rules, [&](const GroupRule &rule) { return hasReplicas(rule.options); });
  if (std::optional<std::string> wrong =
          check(accumulation.gradientSync, accumulation.reshardAfterBackward, microbatches, hasAny))
    return fail(*wrong);
  auto checkGroup = [&](const GroupOptions &options, ConfigPlace place) -> llvm::Error {
    std::optional<std::string> wrong = check(options.gradientSync, options.reshardAfterBackward,
                                             microbatches, hasReplicas(options));
    return wrong ? llvm::make_error<ConfigError>(config.file, place, *wrong)
                 : llvm::Error::success();
  };
  if (llvm::Error error = checkGroup(config.root, config.rootPlace))
    return error;
  for (const GroupRule &rule : rules)
    if (llvm::Error error = checkGroup(rule.options, rule.place))
      return error;
  return llvm::Error::success();
}
