//===- ConvertArgument.cpp - Arguments of recorded calls as attributes ----===//

#include "StepBuilder.h"

#include "fsdp/IR/ElementTypes.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace fsdp;
using namespace fsdp::frontend;

mlir::Type fsdp::frontend::convertDtype(at::ScalarType dtype, MLIRContext &context) {
  if (mlir::Type type = getElementType(static_cast<uint32_t>(dtype), &context))
    return type;
  throw CaptureError(std::string("unsupported dtype ") + toString(dtype));
}

/// An enumeration whose schema type is int.
static Attribute convertEnumeration(int64_t value, c10::TypeKind kind, MLIRContext &context) {
  switch (kind) {
  case c10::TypeKind::ScalarTypeType:
    return TypeAttr::get(convertDtype(static_cast<at::ScalarType>(value), context));
  case c10::TypeKind::LayoutType:
    if (static_cast<at::Layout>(value) != at::kStrided)
      throw CaptureError("layout argument is not torch.strided");
    return aten::StridedAttr::get(&context);
  case c10::TypeKind::MemoryFormatType:
    return aten::MemoryFormatAttr::get(&context, static_cast<aten::MemoryFormat>(value));
  default:
    return IntegerAttr::get(IntegerType::get(&context, 64), value);
  }
}

/// A number passed for a tensor.
static Attribute convertWrappedNumber(const at::Tensor &tensor, MLIRContext &context) {
  Builder builder(&context);
  at::Scalar number = tensor.item();
  if (number.isBoolean())
    return builder.getBoolAttr(number.toBool());
  if (number.isIntegral(/*includeBool=*/false))
    return builder.getI64IntegerAttr(number.toLong());
  if (number.isFloatingPoint())
    return builder.getF64FloatAttr(number.toDouble());
  throw CaptureError("unsupported number of dtype " + std::string(toString(tensor.scalar_type())));
}

static Attribute convertTensor(const at::Tensor &tensor, const Graph &graph,
                               std::vector<int> &operands, MLIRContext &context) {
  if (!tensor.defined())
    return UnitAttr::get(&context);
  int id = graph.find(tensor);
  if (id < 0)
    return convertWrappedNumber(tensor, context);
  operands.push_back(id);
  return aten::OperandAttr::get(&context);
}

static Attribute convertScalar(const c10::IValue &value, c10::TypeKind kind, MLIRContext &context) {
  Builder builder(&context);
  if (value.isNone())
    return builder.getUnitAttr();
  if (value.isBool())
    return builder.getBoolAttr(value.toBool());
  if (value.isInt())
    return convertEnumeration(value.toInt(), kind, context);
  if (value.isDouble())
    return builder.getF64FloatAttr(value.toDouble());
  if (value.isString())
    return builder.getStringAttr(value.toStringRef());
  if (value.isDevice())
    return aten::DeviceAttr::get(&context);
  throw CaptureError("unsupported argument of type " + value.tagKind());
}

/// Lists with elements of one kind become dense arrays, as in the parser.
static Attribute convertList(ArrayRef<Attribute> elements, MLIRContext &context) {
  auto collect = [&](auto convert) { return llvm::map_to_vector(elements, convert); };
  if (!elements.empty() && llvm::all_of(elements, [](Attribute a) { return isa<BoolAttr>(a); }))
    return DenseBoolArrayAttr::get(
        &context, collect([](Attribute a) { return cast<BoolAttr>(a).getValue(); }));
  if (!elements.empty() &&
      llvm::all_of(elements, [](Attribute a) { return isa<IntegerAttr>(a); }) &&
      llvm::none_of(elements, [](Attribute a) { return isa<BoolAttr>(a); }))
    return DenseI64ArrayAttr::get(
        &context, collect([](Attribute a) { return cast<IntegerAttr>(a).getInt(); }));
  if (!elements.empty() && llvm::all_of(elements, [](Attribute a) { return isa<FloatAttr>(a); }))
    return DenseF64ArrayAttr::get(
        &context, collect([](Attribute a) { return cast<FloatAttr>(a).getValueAsDouble(); }));
  return ArrayAttr::get(&context, elements);
}

Attribute fsdp::frontend::convertArgument(const c10::IValue &value, const c10::Argument &formal,
                                          const Graph &graph, std::vector<int> &operands,
                                          MLIRContext &context) {
  c10::TypePtr type = formal.real_type();
  if (auto optional = type->cast<c10::OptionalType>())
    type = optional->getElementType();
  if (value.isGenerator())
    throw CaptureError("argument '" + formal.name() +
                       "' is a generator of random numbers, which "
                       "the step cannot carry");
  if (value.isTensor())
    return convertTensor(value.toTensor(), graph, operands, context);
  if (!value.isList())
    return convertScalar(value, type->kind(), context);
  SmallVector<Attribute> elements;
  for (const c10::IValue &element : value.toList().vec())
    elements.push_back(element.isTensor()
                           ? convertTensor(element.toTensor(), graph, operands, context)
                           : convertScalar(element, c10::TypeKind::IntType, context));
  return convertList(elements, context);
}
