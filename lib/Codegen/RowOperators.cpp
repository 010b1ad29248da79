//===- RowOperators.cpp - Operators on whole rows -------------------------===//

#include "RowOperators.h"

#include "OperatorRules.h"
#include "fsdp/Codegen/KernelShape.h"
#include "fsdp/Codegen/ScalarCode.h"
#include "fsdp/IR/TensorLayout.h"

#include <cmath>

using namespace mlir;
using namespace fsdp;
using namespace fsdp::codegen;

static RankedTensorType getType(Value value) { return dyn_cast<RankedTensorType>(value.getType()); }

static bool isOfKernels(Value value) {
  RankedTensorType type = getType(value);
  return type && type.getNumElements() > 0 && isKernelElement(type.getElementType());
}

static bool isSoftmax(aten::CallOp call) { return call.getCallee() == "_log_softmax.default"; }
static bool isSoftmaxBackward(aten::CallOp call) {
  return call.getCallee() == "_log_softmax_backward_data.default";
}
static bool isLossBackward(aten::CallOp call) {
  return call.getCallee() == "nll_loss_backward.default";
}

/// Along the last dimension, of more than one column, on operands of the result's shape.
static bool isOfLastDimension(aten::CallOp call, size_t argument) {
  RankedTensorType result = getType(call.getResult(0));
  std::optional<double> dimension = Arguments(call).number(argument);
  return result.getRank() >= 2 && result.getShape().back() > 1 && dimension &&
         (*dimension == -1 || *dimension == static_cast<double>(result.getRank() - 1)) &&
         llvm::all_of(call.getOperands(), [&](Value operand) {
           return isOfKernels(operand) && getType(operand).getShape() == result.getShape();
         });
}

/// Of classes in the last of two dimensions, without weights of classes, averaged or added up.
static bool isPlainLossBackward(aten::CallOp call) {
  const Arguments arguments(call);
  RankedTensorType result = getType(call.getResult(0));
  if (call.getNumOperands() != 4 || arguments.size() != 7 || !arguments.isAbsent(3) ||
      (!arguments.isNumber(4, 1) && !arguments.isNumber(4, 2)) || !arguments.number(5))
    return false;
  auto isScalar = [&](unsigned i) {
    return isOfKernels(call.getOperand(i)) && getType(call.getOperand(i)).getNumElements() == 1;
  };
  RankedTensorType target = getType(call.getOperand(2));
  return result.getRank() == 2 && result.getShape().back() > 1 && isScalar(0) && isScalar(3) &&
         target.getElementType().isInteger(64) &&
         target.getShape() == result.getShape().drop_back() && isContiguous(target);
}

bool fsdp::codegen::isRowOperator(aten::CallOp call, Rounding rounding) {
  if (rounding != Rounding::Fast || call.getNumResults() != 1 || call.getRng() ||
      !isOfKernels(call.getResult(0)))
    return false;
  return (isSoftmax(call) && isOfLastDimension(call, 1)) ||
         (isSoftmaxBackward(call) && isOfLastDimension(call, 2)) ||
         (isLossBackward(call) && isPlainLossBackward(call));
}

SmallVector<Value> fsdp::codegen::writeRowNumbers(aten::CallOp call, const Arithmetic &m,
                                                  const RowSite &site) {
  auto plain = [](Value number) { return number; };
  if (isSoftmax(call)) {
    Value largest = site.combine(call.getOperand(0), Combine::Largest, plain);
    Value sum = site.combine(call.getOperand(0), Combine::Sum,
                             [&](Value x) { return m.exp(m.sub(x, largest)); });
    return {largest, m.log(sum)};
  }
  if (isSoftmaxBackward(call))
    return {site.combine(call.getOperand(0), Combine::Sum, plain)};
  // The loss: what the target's column has, and which one that is; nothing where it is ignored.
  const Arguments arguments(call);
  Value slope = m.neg(site.get(call.getOperand(0)));
  if (arguments.isNumber(4, 1))
    slope = m.div(slope, site.get(call.getOperand(3)));
  Value target = site.get(call.getOperand(2));
  Value ignored = m.make<arith::ConstantIntOp>(static_cast<int64_t>(*arguments.number(5)), 64);
  Value isIgnored = m.make<arith::CmpIOp>(arith::CmpIPredicate::eq, target, ignored);
  return {m.select(isIgnored, m.number(0), slope), target};
}

Value fsdp::codegen::writeRowElement(aten::CallOp call, const Arithmetic &m,
                                     ArrayRef<Value> rowNumbers, Value column,
                                     function_ref<Value(Value)> get) {
  if (isSoftmax(call))
    return m.sub(m.sub(get(call.getOperand(0)), rowNumbers[0]), rowNumbers[1]);
  if (isSoftmaxBackward(call))
    return m.sub(get(call.getOperand(0)), m.mul(m.exp(get(call.getOperand(1))), rowNumbers[0]));
  Value isTarget = m.make<arith::CmpIOp>(arith::CmpIPredicate::eq, column, rowNumbers[1]);
  return m.select(isTarget, rowNumbers[0], m.number(0));
}
