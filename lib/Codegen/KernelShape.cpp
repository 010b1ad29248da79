//===- KernelShape.cpp - What a kernel iterates over ----------------------===//

#include "fsdp/Codegen/KernelShape.h"

#include "fsdp/Codegen/ScalarCode.h"
#include "fsdp/IR/TensorLayout.h"

using namespace mlir;
using namespace fsdp;
using namespace fsdp::codegen;

SmallVector<int64_t> fsdp::codegen::getRowShape(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> rows(shape);
  if (!rows.empty())
    rows.back() = 1;
  return rows;
}

static RankedTensorType getType(Value value) { return cast<RankedTensorType>(value.getType()); }

/// True if a tensor of `shape` can be read at each place of `domain`.
static bool isBroadcast(ArrayRef<int64_t> shape, ArrayRef<int64_t> domain) {
  if (shape.size() > domain.size())
    return false;
  for (auto [size, whole] : llvm::zip_equal(shape, domain.take_back(shape.size())))
    if (size != 1 && size != whole)
      return false;
  return true;
}

std::optional<KernelShape> KernelShape::of(KernelOp kernel, std::string &problem) {
  KernelShape shape;
  Block &body = kernel.getBody().front();
  // The largest shape that is computed.
  int64_t most = 0;
  auto consider = [&](Value value) {
    if (int64_t elements = getType(value).getNumElements();
        elements > most || (elements == most &&
                            getType(value).getRank() > static_cast<int64_t>(shape.domain.size()))) {
      most = elements;
      shape.domain = llvm::to_vector(getType(value).getShape());
    }
  };
  for (auto call : body.getOps<aten::CallOp>()) {
    if (isRowReduction(call, kernel.getRounding())) {
      consider(call.getOperand(0));
      shape.byRows = true;
    } else if (isElementwise(call, kernel.getRounding())) {
      consider(call.getResult(0));
    } else {
      problem = "'" + call.getCallee().str() + "' is no operator of kernels with rounding " +
                stringifyRounding(kernel.getRounding()).str();
      return std::nullopt;
    }
  }
  const SmallVector<int64_t> rows = getRowShape(shape.domain);
  for (auto call : body.getOps<aten::CallOp>()) {
    ArrayRef<int64_t> result = getType(call.getResult(0)).getShape();
    bool isWhole = result == ArrayRef<int64_t>(shape.domain);
    bool fits = isWhole || result == ArrayRef<int64_t>(rows);
    shape.byRows |= !isWhole;
    if (isRowReduction(call, kernel.getRounding()))
      fits &= getType(call.getOperand(0)).getShape() == ArrayRef<int64_t>(shape.domain);
    else
      for (Value operand : call.getOperands())
        fits &= isBroadcast(getType(operand).getShape(), result);
    if (!fits) {
      problem = "'" + call.getCallee().str() + "' has a shape that does not fit the kernel's";
      return std::nullopt;
    }
  }
  for (BlockArgument argument : body.getArguments())
    if (!isBroadcast(getType(argument).getShape(), shape.domain)) {
      problem = "operand #" + std::to_string(argument.getArgNumber()) +
                " has a shape that does not fit the kernel's";
      return std::nullopt;
    }
  return shape;
}

bool KernelShape::isOfRows(RankedTensorType type) const {
  return domain.empty() || domain.back() == 1 || type.getRank() == 0 ||
         (type.getShape().back() == 1);
}

SmallVector<int64_t> KernelShape::getStrides(RankedTensorType type) const {
  SmallVector<int64_t> strides(domain.size(), 0);
  TensorLayout layout = getTensorLayout(type);
  const size_t missing = domain.size() - type.getRank();
  for (auto [i, size] : llvm::enumerate(type.getShape()))
    if (size != 1)
      strides[missing + i] = layout.strides[i];
  return strides;
}
