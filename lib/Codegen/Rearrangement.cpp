//===- Rearrangement.cpp - Operators that move columns --------------------===//

#include "fsdp/Codegen/Rearrangement.h"

#include "fsdp/IR/TensorLayout.h"

using namespace mlir;
using namespace fsdp;
using namespace fsdp::codegen;
using aten::CallOp;

static RankedTensorType getType(Value value) { return dyn_cast<RankedTensorType>(value.getType()); }

/// True if the types differ at most in their last dimension.
static bool hasRowsOf(RankedTensorType type, RankedTensorType other) {
  return type && other && type.getRank() >= 1 && type.getNumElements() > 0 &&
         type.getElementType() == other.getElementType() &&
         type.getShape().drop_back() == other.getShape().drop_back();
}

/// Likewise with more than one column: a value with one column has one element per row.
static bool hasColumnsOf(RankedTensorType type, RankedTensorType other) {
  return hasRowsOf(type, other) && type.getShape().back() > 1;
}

static std::optional<int64_t> getInteger(CallOp call, size_t argument) {
  auto integer = argument < call.getArgs().size() ? dyn_cast<IntegerAttr>(call.getArgs()[argument])
                                                  : IntegerAttr();
  return integer ? std::optional(integer.getInt()) : std::nullopt;
}

static bool isLastDimension(CallOp call, size_t argument, RankedTensorType type) {
  std::optional<int64_t> dimension = getInteger(call, argument);
  return dimension && (*dimension == -1 || *dimension == type.getRank() - 1);
}

/// The operand's column that becomes column 0 of a column slice's result.
static int64_t getFirstColumn(OpResult result) {
  auto call = cast<CallOp>(result.getOwner());
  if (call.getCallee() == "split.Tensor")
    return *getInteger(call, 1) * result.getResultNumber();
  int64_t columns = getType(call.getOperand(0)).getShape().back();
  int64_t first = getInteger(call, 2).value_or(0);
  return std::clamp<int64_t>(first < 0 ? first + columns : first, 0, columns);
}

/// How many columns torch gives such a result.
static int64_t countColumns(OpResult result) {
  auto call = cast<CallOp>(result.getOwner());
  const int64_t columns = getType(call.getOperand(0)).getShape().back(),
                first = getFirstColumn(result);
  if (call.getCallee() == "split.Tensor")
    return std::min(*getInteger(call, 1), columns - first);
  const int64_t end = getInteger(call, 3).value_or(columns);
  return std::clamp<int64_t>(end < 0 ? end + columns : end, first, columns) - first;
}

bool fsdp::codegen::isColumnSlice(CallOp call) {
  bool isSlice = call.getCallee() == "slice.Tensor";
  if ((!isSlice && call.getCallee() != "split.Tensor") || call.getNumOperands() != 1)
    return false;
  RankedTensorType operand = getType(call.getOperand(0));
  auto isPart = [&](Value result) { return hasColumnsOf(getType(result), operand); };
  if (!operand || !llvm::all_of(call.getResults(), isPart) ||
      !isLastDimension(call, isSlice ? 1 : 2, operand))
    return false;
  if (isSlice
          ? getInteger(call, 4) != 1 || (!isa<UnitAttr>(call.getArgs()[2]) && !getInteger(call, 2))
          : getInteger(call, 1).value_or(0) <= 0)
    return false;
  return llvm::all_of(call->getOpResults(), [&](OpResult result) {
    return countColumns(result) == getType(result).getShape().back();
  });
}

bool fsdp::codegen::isColumnConcatenation(CallOp call) {
  if (call.getCallee() != "cat.default" || call.getNumResults() != 1 || call.getNumOperands() == 0)
    return false;
  RankedTensorType result = getType(call.getResult(0));
  auto isPart = [&](Value operand) { return hasColumnsOf(getType(operand), result); };
  if (!result || !llvm::all_of(call.getOperands(), isPart) || !isLastDimension(call, 1, result))
    return false;
  int64_t columns = 0;
  for (Value operand : call.getOperands())
    columns += getType(operand).getShape().back();
  return columns == result.getShape().back();
}

bool fsdp::codegen::isRowExpansion(CallOp call) {
  if (call.getCallee() != "expand.default" || call.getNumOperands() != 1)
    return false;
  RankedTensorType operand = getType(call.getOperand(0));
  return hasRowsOf(getType(call.getResult(0)), operand) && operand.getShape().back() == 1;
}

bool fsdp::codegen::isRowRegrouping(CallOp call) {
  if ((call.getCallee() != "view.default" && call.getCallee() != "_unsafe_view.default") ||
      call.getNumOperands() != 1)
    return false;
  RankedTensorType operand = getType(call.getOperand(0)), result = getType(call.getResult(0));
  return operand && result && operand.getRank() >= 2 && result.getRank() >= 2 &&
         operand.getNumElements() > 0 && operand.getShape().back() > 1 &&
         operand.getShape().back() == result.getShape().back() && isContiguous(operand) &&
         isContiguous(result);
}

std::optional<ColumnOf> fsdp::codegen::findColumn(OpResult result, int64_t column) {
  auto call = cast<CallOp>(result.getOwner());
  if (isColumnSlice(call))
    return ColumnOf{call.getOperand(0), column + getFirstColumn(result)};
  if (isRowExpansion(call))
    return ColumnOf{call.getOperand(0), 0};
  if (isRowRegrouping(call))
    return ColumnOf{call.getOperand(0), column};
  if (!isColumnConcatenation(call))
    return std::nullopt;
  for (Value part : call.getOperands().drop_back()) {
    int64_t columns = getType(part).getShape().back();
    if (column < columns)
      return ColumnOf{part, column};
    column -= columns;
  }
  return ColumnOf{call.getOperands().back(), column};
}
