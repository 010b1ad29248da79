//===- KernelBody.cpp - A kernel's values at one index --------------------===//

#include "KernelBody.h"

#include "Arithmetic.h"
#include "RowOperators.h"
#include "fsdp/Codegen/Rearrangement.h"

using namespace mlir;
using namespace fsdp;
using namespace fsdp::codegen;

Value PlaceValues::get(OpBuilder &builder, Value value, int64_t shift) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getRank() == 0 || type.getShape().back() == 1)
    shift = 0; // all columns are equal
  if (Value known = find({value, shift}))
    return known;
  Value scalar;
  auto call = value.getDefiningOp<aten::CallOp>();
  if (!call) {
    scalar = load(cast<BlockArgument>(value), shift);
  } else if (std::optional<ColumnOf> source = findColumn(cast<OpResult>(value), segment + shift)) {
    scalar = get(builder, source->value, source->column - segment);
  } else if (isRowOperator(call, kernel.getRounding())) {
    Arithmetic m(builder, call.getLoc(), processor);
    Value here = column;
    if (shift != 0)
      here = m.make<arith::AddIOp>(column, m.make<arith::ConstantIntOp>(shift, 64));
    scalar = writeRowElement(call, m, findRowNumbers(call), here,
                             [&](Value operand) { return get(builder, operand, shift); });
  } else {
    SmallVector<Value> operands;
    for (Value operand : call.getOperands())
      operands.push_back(get(builder, operand, shift));
    scalar =
        ScalarCode(builder, call.getLoc(), kernel.getRounding(), processor).compute(call, operands);
  }
  scalars[{value, shift}] = scalar;
  return scalar;
}

Value fsdp::codegen::getElementAddress(OpBuilder &builder, Location loc, ScalarCode &code,
                                       const KernelTensor &tensor, Value index) {
  return LLVM::GEPOp::create(builder, loc, LLVM::LLVMPointerType::get(builder.getContext()),
                             code.getMemoryType(tensor.getElement()), tensor.pointer,
                             ArrayRef<LLVM::GEPArg>{index});
}
