//===- KernelBody.cpp - The calls of a kernel at one place ----------------===//

#include "KernelBody.h"

using namespace mlir;
using namespace fsdp;
using namespace fsdp::codegen;

Value PlaceValues::get(OpBuilder &builder, Value value) {
  if (Value known = find(value))
    return known;
  Value scalar;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    scalar = load(argument);
  } else {
    auto call = value.getDefiningOp<aten::CallOp>();
    SmallVector<Value> operands;
    for (Value operand : call.getOperands())
      operands.push_back(get(builder, operand));
    scalar = ScalarCode(builder, call.getLoc(), kernel.getRounding()).compute(call, operands);
  }
  set(value, scalar);
  return scalar;
}

Value fsdp::codegen::getElementAddress(OpBuilder &builder, Location loc, ScalarCode &code,
                                       const KernelTensor &tensor, Value index) {
  return LLVM::GEPOp::create(builder, loc, LLVM::LLVMPointerType::get(builder.getContext()),
                             code.getMemoryType(tensor.getElement()), tensor.pointer,
                             ArrayRef<LLVM::GEPArg>{index});
}
