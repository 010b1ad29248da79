//===- KernelReferences.cpp - What a kernel should compute ----------------===//

#include "KernelReferences.h"

#include "Operators.h"
#include "fsdp/Codegen/Rearrangement.h"
#include "fsdp/IR/TensorLayout.h"
#include "mlir/IR/Builders.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <gtest/gtest.h>

using namespace mlir;
using namespace fsdp;
using namespace fsdp::test;

KnownValue fsdp::test::makeKnown(Value value, const at::Tensor &tensor) {
  if (!at::isFloatingType(tensor.scalar_type()))
    return {value, tensor, tensor, tensor};
  return {value, tensor, tensor.to(at::kFloat), tensor.to(at::kDouble)};
}

/// The call's result with operands and results of another dtype.
static at::Tensor computeIn(Type element, aten::CallOp call, ArrayRef<at::Tensor> operands) {
  SmallVector<Attribute> arguments(call.getArgs().getValue());
  if (call.getCallee() == "_to_copy.default")
    arguments[1] = TypeAttr::get(element);
  if (call.getCallee() == "_log_softmax_backward_data.default" ||
      (call.getCallee() == "sum.dim_IntList" && isa<TypeAttr>(arguments[3])))
    arguments[3] = TypeAttr::get(element);
  auto own = cast<RankedTensorType>(call.getResult(0).getType());
  RankedTensorType type = own.clone(element);
  if (codegen::isKernelView(call) &&
      !codegen::isRowRegrouping(call)) { // of a tensor whose strides are others
    SmallVector<int64_t> strides(operands[0].strides().begin(), operands[0].strides().end());
    int64_t first = codegen::findColumn(call->getOpResult(0), 0)->column;
    int64_t offset = operands[0].storage_offset() + first * strides.back();
    if (codegen::isRowExpansion(call))
      strides.back() = 0;
    type = getStridedTensorType(own.getShape(), element, strides, offset);
  }
  OpBuilder builder(call);
  OwningOpRef<aten::CallOp> other = cast<aten::CallOp>(builder.clone(*call.getOperation()));
  other->setArgsAttr(builder.getArrayAttr(arguments));
  other->getResult(0).setType(type);
  return interpreter::callOperator(*other, operands)[0];
}

KnownValue fsdp::test::computeResult(aten::CallOp call, ArrayRef<const KnownValue *> operands,
                                     Rounding rounding) {
  SmallVector<at::Tensor> tensors, single, precise;
  for (const KnownValue *operand : operands) {
    tensors.push_back(operand->tensor);
    single.push_back(operand->single);
    precise.push_back(operand->precise);
  }
  KnownValue result{call.getResult(0), interpreter::callOperator(call, tensors)[0], {}, {}};
  if (rounding == Rounding::Fast) {
    result.single = computeIn(Float32Type::get(call.getContext()), call, single);
    result.precise = computeIn(Float64Type::get(call.getContext()), call, precise);
  }
  return result;
}

void fsdp::test::checkBound(const at::Tensor &got, const at::Tensor &single,
                            const at::Tensor &precise) {
  double unit = got.scalar_type() == at::kBFloat16 ? 0x1p-8
                : got.scalar_type() == at::kHalf   ? 0x1p-11
                                                   : 0x1p-24;
  at::Tensor isKnown = precise.abs().lt(3e4);
  auto largest = [&](const at::Tensor &tensor) {
    return tensor.abs().masked_fill(isKnown.logical_not(), 0).max().item<double>();
  };
  double error = largest(got.to(at::kDouble) - precise);
  double ofSingle = largest(single.to(at::kDouble) - precise);
  EXPECT_LE(error, 4 * ofSingle + (unit + 0x1p-21) * largest(precise) + 1e-7);
}
