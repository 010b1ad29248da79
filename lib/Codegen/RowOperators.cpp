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

static bool isZeros(aten::CallOp call) { return call.getCallee() == "new_zeros.default"; }
static bool isScatter(aten::CallOp call) { return call.getCallee() == "scatter_add.default"; }

static bool isLast(std::optional<double> dimension, RankedTensorType type) {
  return dimension == -1 || dimension == static_cast<double>(type.getRank() - 1);
}

/// True for `new_zeros` whose operand has the shape of the result, or one element per row.
static bool isKernelZeros(aten::CallOp call) {
  RankedTensorType result = getType(call.getResult(0));
  if (call.getNumOperands() != 1 || !isOfKernels(call.getOperand(0)) || result.getRank() < 2 ||
      result.getShape().back() <= 1)
    return false;
  RankedTensorType operand = getType(call.getOperand(0));
  return operand.getElementType() == result.getElementType() &&
         (operand.getShape() == result.getShape() ||
          operand.getShape() == ArrayRef<int64_t>(getRowShape(result.getShape())));
}

/// True for the backward of a pick, which adds one element per row to the column that an index
/// names.
static bool isKernelScatter(aten::CallOp call) {
  RankedTensorType result = getType(call.getResult(0));
  if (call.getNumOperands() != 3 || result.getRank() < 2 || result.getShape().back() <= 1 ||
      !isLast(Arguments(call).number(1), result))
    return false;
  const SmallVector<int64_t> rows = getRowShape(result.getShape());
  RankedTensorType self = getType(call.getOperand(0)), index = getType(call.getOperand(1)),
                   added = getType(call.getOperand(2));
  return isOfKernels(call.getOperand(0)) && isOfKernels(call.getOperand(2)) && index &&
         self.getShape() == result.getShape() && added.getShape() == ArrayRef<int64_t>(rows) &&
         index.getShape() == ArrayRef<int64_t>(rows) && index.getElementType().isInteger(64) &&
         self.getElementType() == result.getElementType() &&
         added.getElementType() == result.getElementType();
}

/// True along the last dimension, of more than one column, if operands have the result's shape.
static bool isOfLastDimension(aten::CallOp call, size_t argument) {
  RankedTensorType result = getType(call.getResult(0));
  return result.getRank() >= 2 && result.getShape().back() > 1 &&
         isLast(Arguments(call).number(argument), result) &&
         llvm::all_of(call.getOperands(), [&](Value operand) {
           return isOfKernels(operand) && getType(operand).getShape() == result.getShape();
         });
}

/// Operands of `nll_loss_backward`: the gradient, the rows, targets, class weights if there are
/// any, and the divisor of a mean.
static constexpr unsigned kGradient = 0, kTargets = 2, kWeight = 3;
enum Reduction { None, Mean, Sum };

static Reduction getReduction(aten::CallOp call) {
  return static_cast<Reduction>(static_cast<int>(*Arguments(call).number(4)));
}
static Value getTotal(aten::CallOp call) { return call.getOperands().back(); }
static Value getWeight(aten::CallOp call) {
  return call.getNumOperands() == 5 ? call.getOperand(kWeight) : Value();
}

/// True for classes in the last of two dimensions.
static bool isKernelLossBackward(aten::CallOp call) {
  const Arguments arguments(call);
  RankedTensorType result = getType(call.getResult(0));
  if (arguments.size() != 7 || call.getNumOperands() != (arguments.isAbsent(3) ? 4 : 5) ||
      !(arguments.isNumber(4, None) || arguments.isNumber(4, Mean) || arguments.isNumber(4, Sum)) ||
      !arguments.number(5) || result.getRank() != 2 || result.getShape().back() <= 1)
    return false;
  const int64_t rows = result.getDimSize(0), columns = result.getDimSize(1);
  auto isScalar = [&](Value value) {
    return isOfKernels(value) && getType(value).getNumElements() == 1;
  };
  auto hasShape = [&](Value value, int64_t size) {
    return getType(value) && getType(value).getShape() == ArrayRef<int64_t>(size);
  };
  Value gradient = call.getOperand(kGradient), target = call.getOperand(kTargets),
        weight = getWeight(call);
  // With as many rows as columns the gradient's shape could also mean one element per column.
  bool hasGradient = getReduction(call) == None ? isOfKernels(gradient) && rows > 1 &&
                                                      rows != columns && hasShape(gradient, rows)
                                                : isScalar(gradient);
  return hasGradient && isScalar(getTotal(call)) && hasShape(target, rows) &&
         getType(target).getElementType().isInteger(64) && isContiguous(getType(target)) &&
         (!weight || (isOfKernels(weight) && hasShape(weight, columns)));
}

bool fsdp::codegen::isRowOperator(aten::CallOp call, Rounding rounding) {
  if (rounding != Rounding::Fast || call.getNumResults() != 1 || call.getRng() ||
      !isOfKernels(call.getResult(0)))
    return false;
  return (isSoftmax(call) && isOfLastDimension(call, 1)) ||
         (isSoftmaxBackward(call) && isOfLastDimension(call, 2)) ||
         (isLossBackward(call) && isKernelLossBackward(call)) ||
         (isZeros(call) && isKernelZeros(call)) || (isScatter(call) && isKernelScatter(call));
}

bool fsdp::codegen::isRowOperand(OpOperand &use, Rounding rounding) {
  auto call = dyn_cast<aten::CallOp>(use.getOwner());
  return call && isRowOperator(call, rounding) && isLossBackward(call) &&
         (use.getOperandNumber() == kTargets ||
          (use.getOperandNumber() == kGradient && getReduction(call) == None));
}

Value fsdp::codegen::writeLogSumExp(Value operand, const Arithmetic &m,
                                    function_ref<Value(Value, Combine, RowSite::Term)> combine) {
  using Predicate = arith::CmpFPredicate;
  Value infinity = m.number(INFINITY);
  Value largest = combine(operand, Combine::Largest, [](Value number) { return number; });
  Value isInfinite = m.compare(Predicate::OEQ, m.abs(largest), infinity);
  Value base = m.select(isInfinite, m.number(0), largest);
  Value sum = combine(operand, Combine::Sum, [&](Value x) { return m.exp(m.sub(x, base)); });
  // `log` needs a normal number: if the largest element is finite, the sum is at least exp(0) = 1.
  return m.select(m.make<arith::AndIOp>(isInfinite, m.compare(Predicate::ORD, sum, sum)), largest,
                  m.add(m.log(sum), base));
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
  if (isZeros(call))
    return {};
  if (isScatter(call))
    return {site.get(call.getOperand(2)), site.get(call.getOperand(1))};
  // The target's column and the loss's gradient there; ignored targets have none.
  Value slope = m.neg(site.get(call.getOperand(kGradient)));
  if (getReduction(call) == Mean)
    slope = m.div(slope, site.get(getTotal(call)));
  Value target = site.get(call.getOperand(kTargets));
  if (Value weight = getWeight(call))
    slope = m.mul(slope, site.pick(weight, target));
  Value ignored =
      m.make<arith::ConstantIntOp>(static_cast<int64_t>(*Arguments(call).number(5)), 64);
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
  if (isZeros(call))
    return m.number(0);
  Value isTarget = m.make<arith::CmpIOp>(arith::CmpIPredicate::eq, column, rowNumbers[1]);
  Value atTarget = m.select(isTarget, rowNumbers[0], m.number(0));
  return isScatter(call) ? m.add(get(call.getOperand(0)), atTarget) : atTarget;
}
