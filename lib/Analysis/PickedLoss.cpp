//===- PickedLoss.cpp - A loss of one number of each row -------------------===//

#include "fsdp/Analysis/PickedLoss.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace fsdp;
using aten::CallOp;

static RankedTensorType getType(Value value) { return cast<RankedTensorType>(value.getType()); }

/// True if argument `place` of the call is this number.
static bool hasNumber(CallOp call, size_t place, int64_t number) {
  ArrayAttr arguments = call.getArgs();
  auto integer = place < arguments.size() ? dyn_cast<IntegerAttr>(arguments[place]) : IntegerAttr();
  return integer && integer.getInt() == number;
}

bool fsdp::isPlainLoss(CallOp call) {
  if (call.getCallee() != "nll_loss_forward.default" || call.getNumOperands() != 2 ||
      call.getArgs().size() != 5 || !isa<UnitAttr>(call.getArgs()[2]))
    return false;
  auto ignored = dyn_cast<IntegerAttr>(call.getArgs()[4]);
  RankedTensorType rows = getType(call.getOperand(0)), targets = getType(call.getOperand(1));
  return (hasNumber(call, 3, 1) || hasNumber(call, 3, 2)) && ignored && ignored.getInt() < 0 &&
         rows.getRank() == 2 && targets.getElementType().isInteger(64) &&
         targets.getShape() == rows.getShape().drop_back();
}

std::optional<PickPart> fsdp::getPickPart(CallOp call) {
  if (call.getNumResults() != 1 || call.getNumOperands() == 0)
    return std::nullopt;
  RankedTensorType first = getType(call.getOperand(0));
  const bool areTargets = first.getRank() == 1 && first.getElementType().isInteger(64);
  if (areTargets && call.getNumOperands() == 1) {
    if (call.getCallee() == "clamp_min.default" && hasNumber(call, 1, 0))
      return PickPart::Classes;
    if (call.getCallee() == "clamp_max.default" && hasNumber(call, 1, 0))
      return PickPart::Ignored;
    if (call.getCallee() == "unsqueeze.default" && hasNumber(call, 1, 1))
      return PickPart::Indices;
  }
  if (call.getCallee() == "gather.default" && call.getNumOperands() == 2 && first.getRank() == 2 &&
      hasNumber(call, 1, 1))
    return PickPart::Picked;
  return std::nullopt;
}
