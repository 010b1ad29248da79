//===- WideProducts.cpp - Products that are stored in fp32 -----------------===//

#include "fsdp/Analysis/WideProducts.h"

#include "fsdp/IR/TensorLayout.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace fsdp;
using aten::CallOp;

static RankedTensorType getResultType(CallOp call) {
  return call.getNumResults() == 1 ? dyn_cast<RankedTensorType>(call.getResult(0).getType())
                                   : RankedTensorType();
}

static bool isNarrow(RankedTensorType type) {
  return type && (type.getElementType().isBF16() || type.getElementType().isF16());
}

bool fsdp::isNarrowProduct(CallOp call) {
  const StringRef callee = call.getCallee();
  return (callee == "mm.default" || callee == "bmm.default") && call.getNumOperands() == 2 &&
         call.getArgs().size() == 2 && isNarrow(getResultType(call)) &&
         isContiguous(getResultType(call));
}

StringAttr fsdp::getWideCallee(CallOp product) {
  return StringAttr::get(product.getContext(), product.getBaseName() + ".dtype");
}

ArrayAttr fsdp::getWideArguments(CallOp product) {
  SmallVector<Attribute> arguments(product.getArgs().getValue());
  arguments.push_back(TypeAttr::get(Float32Type::get(product.getContext())));
  return ArrayAttr::get(product.getContext(), arguments);
}

bool fsdp::isWholeView(CallOp call) {
  static const llvm::StringSet<> views = {
      "_unsafe_view.default", "permute.default", "squeeze.dim",      "t.default",
      "transpose.int",        "view.default",    "unsqueeze.default"};
  return views.contains(call.getCallee()) && call.getNumOperands() == 1 && getResultType(call);
}

bool fsdp::areInverse(CallOp view, CallOp next) {
  return (view.getCallee() == "t.default" || view.getCallee() == "transpose.int") &&
         view.getCallee() == next.getCallee() && view.getArgs() == next.getArgs();
}

/// Arguments that the types do not determine must be `none`: no pinned memory, no memory format.
bool fsdp::isCastToFloat(CallOp call) {
  constexpr unsigned kDtype = 1, kPinned = 4, kFormat = 6, kCount = 7;
  ArrayAttr arguments = call.getArgs();
  if (call.getCallee() != "_to_copy.default" || arguments.size() != kCount ||
      call.getNumOperands() != 1)
    return false;
  auto dtype = dyn_cast<TypeAttr>(arguments[kDtype]);
  return dtype && dtype.getValue().isF32() && isa<UnitAttr>(arguments[kPinned]) &&
         isa<UnitAttr>(arguments[kFormat]) && getResultType(call) &&
         getResultType(call) == widen(call.getOperand(0).getType());
}

RankedTensorType fsdp::widen(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? RankedTensorType::get(tensor.getShape(), Float32Type::get(type.getContext()),
                                        tensor.getEncoding())
                : RankedTensorType();
}
