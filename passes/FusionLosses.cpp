//===- FusionLosses.cpp - Losses that read one number of a row ------------===//

#include "passes/FusionLosses.h"

#include "fsdp/Analysis/PickedLoss.h"
#include "fsdp/Codegen/ScalarCode.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace fsdp;
using aten::CallOp;

/// A call at `loss`, with operands at the places of the arguments that are null.
static Value addCall(CallOp loss, StringRef callee, ValueRange operands,
                     ArrayRef<Attribute> arguments, Type type) {
  OpBuilder builder(loss);
  auto all = llvm::map_to_vector(arguments, [&](Attribute argument) -> Attribute {
    return argument ? argument : aten::OperandAttr::get(builder.getContext());
  });
  return CallOp::create(builder, loss.getLoc(), TypeRange(type), operands,
                        builder.getStringAttr(callee), builder.getArrayAttr(all), loss.getPhase(),
                        loss.getScopeAttr(), /*rng=*/nullptr, /*offsets=*/nullptr)
      .getResult(0);
}

/// What is ignored, which is negative, is looked up as class 0, and stays ignored by the loss.
static void split(CallOp loss) {
  Builder builder(loss.getContext());
  Attribute zero = builder.getI64IntegerAttr(0), one = builder.getI64IntegerAttr(1);
  Value rows = loss.getOperand(0), targets = loss.getOperand(1);
  auto type = cast<RankedTensorType>(targets.getType());
  auto column = RankedTensorType::get({type.getDimSize(0), 1}, type.getElementType());
  Value classes = addCall(loss, "clamp_min.default", targets, {nullptr, zero}, type);
  Value indices = addCall(loss, "unsqueeze.default", classes, {nullptr, one}, column);
  Value picked = addCall(loss, "gather.default", {rows, indices},
                         {nullptr, one, nullptr, builder.getBoolAttr(false)},
                         column.clone(cast<RankedTensorType>(rows.getType()).getElementType()));
  Value ignored = addCall(loss, "clamp_max.default", targets, {nullptr, zero}, type);
  loss->setOperand(0, picked);
  loss->setOperand(1, ignored);
}

void fsdp::splitLosses(func::FuncOp step, Rounding rounding) {
  for (CallOp loss : llvm::to_vector(step.getOps<CallOp>())) {
    auto rows = loss.getNumOperands() > 0 ? loss.getOperand(0).getDefiningOp<CallOp>() : CallOp();
    if (rows && codegen::isRowOperator(rows, rounding) && isPlainLoss(loss))
      split(loss);
  }
}
