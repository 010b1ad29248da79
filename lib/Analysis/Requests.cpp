//===- Requests.cpp - User requests that are not met ----------------------===//

#include "fsdp/Analysis/Requests.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fsdp;

std::optional<std::string> fsdp::explainOpenDtypes(Step &step, GroupOp group) {
  if (Float8CastAttr cast = group.getFloat8CastAttr();
      cast && !group.getGatherDtype() && !group.getReason(Subject::GatherDtype))
    return llvm::formatv("asks to be gathered as {0}, but is not; run fsdp-mixed-precision first",
                         cast.getDtype())
        .str();
  MixedPrecisionAttr asked = group.getMixedPrecisionAttr();
  if (!asked || group.getParams().empty())
    return std::nullopt;
  auto own = cast<FloatType>(step.getDtype(group));
  Type gathered = group.getGatherDtype().value_or(own);
  if (asked.getParamDtype() && asked.getParamDtype() != gathered &&
      !group.getReason(Subject::GatherDtype))
    return llvm::formatv("asks for param_dtype {0}, but is gathered as {1}; run "
                         "fsdp-mixed-precision first",
                         asked.getParamDtype(), gathered)
        .str();
  Type reduction = asked.getDtypeOfReduction(), reduced = group.getReduceDtype().value_or(own);
  if (reduction && reduction != reduced && !group.getReason(Subject::ReduceDtype))
    return llvm::formatv("asks for reduce_dtype {0}, but its gradients are reduced as {1}; run "
                         "fsdp-mixed-precision first",
                         reduction, reduced)
        .str();
  return std::nullopt;
}

static std::optional<std::string> explainOpenRecomputation(GroupOp group) {
  std::optional<RecomputePolicy> asked = group.getRecompute(), decided = group.getRecomputed();
  if (!asked || group.getReason(Subject::Recomputed))
    return std::nullopt;
  std::string request =
      llvm::formatv("asks for recompute {0}, ", stringifyRecomputePolicy(*asked)).str();
  if (!decided && *asked != RecomputePolicy::None)
    return request + "of which nothing is decided; run fsdp-recompute first";
  if (*asked == RecomputePolicy::Auto)
    return request + "but no decision says why its backward recomputes by policy " +
           stringifyRecomputePolicy(*decided).str();
  if (decided.value_or(*asked) != *asked)
    return request + "but its backward recomputes by policy " +
           stringifyRecomputePolicy(*decided).str() + ", and no decision says why";
  return std::nullopt;
}

/// Optimizer state at another place than requested. Without a decision there is no error:
/// fsdp-offload-optimizer takes sharded modules.
static std::optional<std::string> explainOpenPlace(GroupOp group) {
  std::optional<bool> asked = group.getOffloadOptimizer();
  std::optional<StatePlace> decided = group.getOptimizerState();
  if (!asked || !decided || *asked == group.isStateOnHost() ||
      group.getReason(Subject::OptimizerState))
    return std::nullopt;
  return llvm::formatv("asks for offload_optimizer {0}, but its optimizer_state is {1}, and no "
                       "decision says why",
                       *asked, stringifyStatePlace(*decided))
      .str();
}

static std::optional<std::string> explainOpenActivations(GroupOp group) {
  std::optional<bool> asked = group.getOffloadActivations();
  std::optional<StatePlace> decided = group.getActivations();
  if (!asked || !decided || *asked == group.areActivationsOnHost() ||
      group.getReason(Subject::Activations))
    return std::nullopt;
  return llvm::formatv(
             "asks for offload_activations {0}, but its activations are said to be on the "
             "{1}, and no decision says why",
             *asked, stringifyStatePlace(*decided))
      .str();
}

std::optional<std::string> fsdp::explainOpen(Step &step, GroupOp group) {
  if (std::optional<std::string> open = explainOpenDtypes(step, group))
    return open;
  if (std::optional<std::string> open = explainOpenRecomputation(group))
    return open;
  if (std::optional<std::string> open = explainOpenPlace(group))
    return open;
  return explainOpenActivations(group);
}

std::optional<std::string> fsdp::explainOpenOffload(GroupOp group) {
  if (group.getOffloadOptimizer() != true || group.isStateOnHost() ||
      group.getReason(Subject::OptimizerState))
    return std::nullopt;
  return "asks for offload_optimizer, but its optimizer state stays in the arena; run "
         "fsdp-offload-optimizer";
}

std::optional<std::string> fsdp::explainOpenActivationOffload(GroupOp group) {
  if (group.getOffloadActivations() != true || group.areActivationsOnHost() ||
      group.getReason(Subject::Activations))
    return std::nullopt;
  return "asks for offload_activations, but its activations stay in the arena; run "
         "fsdp-offload-activations";
}
