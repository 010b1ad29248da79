//===- AtenBuilders.cpp - Calls that passes add to a step -----------------===//

#include "fsdp/IR/AtenBuilders.h"

using namespace mlir;
using namespace fsdp::aten;

Value fsdp::aten::cloneContiguously(OpBuilder &builder, Value tensor, Phase phase,
                                    ScopeAttr scope) {
  MLIRContext *context = builder.getContext();
  Type type = cast<RankedTensorType>(tensor.getType()).cloneWithEncoding({});
  Attribute arguments[] = {OperandAttr::get(context),
                           MemoryFormatAttr::get(context, MemoryFormat::Contiguous)};
  auto call = CallOp::create(builder, tensor.getLoc(), TypeRange(type), ValueRange(tensor),
                             builder.getStringAttr("clone.default"),
                             builder.getArrayAttr(arguments), phase, scope, /*rng=*/nullptr,
                             /*offsets=*/nullptr);
  return call.getResult(0);
}

Value fsdp::aten::castTo(OpBuilder &builder, Location loc, Value tensor, Type dtype, Phase phase,
                         ScopeAttr scope) {
  const Attribute none = builder.getUnitAttr();
  Attribute arguments[] = {OperandAttr::get(builder.getContext()),
                           TypeAttr::get(dtype),
                           none,
                           none,
                           none,
                           builder.getBoolAttr(false),
                           none};
  Type type = cast<RankedTensorType>(tensor.getType()).clone(dtype);
  auto call = CallOp::create(builder, loc, TypeRange(type), ValueRange(tensor),
                             builder.getStringAttr("_to_copy.default"),
                             builder.getArrayAttr(arguments), phase, scope, /*rng=*/nullptr,
                             /*offsets=*/nullptr);
  return call.getResult(0);
}
