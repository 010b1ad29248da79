//===- GradientRounding.cpp - Gradients before their cast to reduce_dtype -===//

#include "fsdp/Analysis/GradientRounding.h"

#include "fsdp/IR/Aten.h"

using namespace mlir;
using namespace fsdp;

static FloatType getFloatType(Value tensor) {
  return dyn_cast<FloatType>(cast<RankedTensorType>(tensor.getType()).getElementType());
}

Value fsdp::skipCopies(Value gradient) {
  for (;;) {
    auto call = gradient.getDefiningOp<aten::CallOp>();
    if (!call || call.getCallee() != "clone.default")
      return gradient;
    gradient = call.getOperand(0);
  }
}

Value fsdp::getUnrounded(GroupOp group, Value gradient) {
  gradient = skipCopies(gradient);
  auto call = gradient.getDefiningOp<aten::CallOp>();
  if (!group.getReduceDtype() || !call || call.getCallee() != "_to_copy.default")
    return gradient;
  FloatType from = getFloatType(call.getOperand(0)), to = getFloatType(gradient);
  bool isRounded =
      from && to && to == *group.getReduceDtype() &&
      !llvm::APFloat::isRepresentableBy(from.getFloatSemantics(), to.getFloatSemantics());
  return isRounded ? call.getOperand(0) : gradient;
}
