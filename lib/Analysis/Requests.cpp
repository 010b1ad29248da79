//===- Requests.cpp - What is asked of a group and not decided yet --------===//

#include "fsdp/Analysis/Requests.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fsdp;

std::optional<std::string> fsdp::explainOpenDtypes(Step &step, GroupOp group) {
  MixedPrecisionAttr asked = group.getMixedPrecisionAttr();
  if (!asked || group.getParams().empty())
    return std::nullopt;
  ParamOp first = step.getParams(group).front();
  auto own = cast<FloatType>(cast<RankedTensorType>(first.getType()).getElementType());
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

std::optional<std::string> fsdp::explainOpenOffload(GroupOp group) {
  if (group.getOffloadOptimizer() != true || group.isStateOnHost() ||
      group.getReason(Subject::OptimizerState))
    return std::nullopt;
  return "asks for offload_optimizer, but its optimizer state stays in the arena; run "
         "fsdp-offload-optimizer";
}
