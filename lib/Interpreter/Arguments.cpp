//===- Arguments.cpp - Attributes of a call as torch's values -------------===//

#include "Arguments.h"

#include "fsdp/IR/ElementTypes.h"
#include "mlir/IR/BuiltinTypes.h"

#include <ATen/ops/scalar_tensor.h>

#include <stdexcept>

using namespace mlir;
using namespace fsdp;

at::ScalarType fsdp::interpreter::convertElementType(Type type) {
  if (std::optional<fsdp_dtype> dtype = getPlanDType(type))
    return static_cast<at::ScalarType>(*dtype);
  throw std::runtime_error("element type without dtype");
}

static c10::TypePtr stripOptional(c10::TypePtr type) {
  if (auto optional = type->cast<c10::OptionalType>())
    return optional->getElementType();
  return type;
}

static at::Tensor makeWrappedNumber(const at::Scalar &number) {
  at::Tensor tensor = at::scalar_tensor(number, at::TensorOptions(number.type()));
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

/// A literal of the schema's type.
static c10::IValue makeLiteral(Attribute attribute, const c10::TypePtr &type) {
  bool isTensor = type->kind() == c10::TypeKind::TensorType;
  bool isFloat = type->kind() == c10::TypeKind::FloatType;
  if (auto boolean = dyn_cast<BoolAttr>(attribute))
    return isTensor ? c10::IValue(makeWrappedNumber(boolean.getValue()))
                    : c10::IValue(boolean.getValue());
  if (auto integer = dyn_cast<IntegerAttr>(attribute))
    return isTensor  ? c10::IValue(makeWrappedNumber(integer.getInt()))
           : isFloat ? c10::IValue(static_cast<double>(integer.getInt()))
                     : c10::IValue(integer.getInt());
  if (auto real = dyn_cast<FloatAttr>(attribute))
    return isTensor ? c10::IValue(makeWrappedNumber(real.getValueAsDouble()))
                    : c10::IValue(real.getValueAsDouble());
  if (auto text = dyn_cast<StringAttr>(attribute))
    return text.str();
  if (auto dtype = dyn_cast<TypeAttr>(attribute))
    return static_cast<int64_t>(fsdp::interpreter::convertElementType(dtype.getValue()));
  if (isa<aten::DeviceAttr>(attribute))
    return c10::Device(at::kCPU);
  if (isa<aten::StridedAttr>(attribute))
    return static_cast<int64_t>(at::kStrided);
  if (auto format = dyn_cast<aten::MemoryFormatAttr>(attribute))
    return static_cast<int64_t>(format.getValue());
  throw std::runtime_error("argument of an unknown kind");
}

static c10::IValue makeTensorList(ArrayAttr elements, const c10::TypePtr &element,
                                  ArrayRef<at::Tensor> &operands) {
  auto next = [&](Attribute attribute) {
    if (!isa<aten::OperandAttr>(attribute))
      return at::Tensor();
    at::Tensor tensor = operands.front();
    operands = operands.drop_front();
    return tensor;
  };
  if (element->kind() == c10::TypeKind::OptionalType) {
    c10::List<std::optional<at::Tensor>> list;
    for (Attribute attribute : elements) {
      at::Tensor tensor = next(attribute);
      list.push_back(tensor.defined() ? std::optional<at::Tensor>(tensor) : std::nullopt);
    }
    return list;
  }
  c10::List<at::Tensor> list;
  for (Attribute attribute : elements)
    list.push_back(next(attribute));
  return list;
}

static c10::IValue makeScalarList(ArrayAttr elements, const c10::TypePtr &element) {
  c10::impl::GenericList list(element);
  for (Attribute attribute : elements)
    list.push_back(makeLiteral(attribute, element));
  return list;
}

c10::IValue fsdp::interpreter::makeArgument(Attribute attribute, const c10::Argument &formal,
                                            ArrayRef<at::Tensor> &operands) {
  c10::TypePtr type = stripOptional(formal.real_type());
  if (isa<aten::OperandAttr>(attribute)) {
    at::Tensor tensor = operands.front();
    operands = operands.drop_front();
    return tensor;
  }
  if (isa<UnitAttr>(attribute))
    return type->kind() == c10::TypeKind::TensorType &&
                   formal.real_type()->kind() != c10::TypeKind::OptionalType
               ? c10::IValue(at::Tensor())
               : c10::IValue();
  if (auto integers = dyn_cast<DenseI64ArrayAttr>(attribute)) {
    auto list = type->cast<c10::ListType>();
    if (list && list->getElementType()->kind() == c10::TypeKind::FloatType)
      return std::vector<double>(integers.asArrayRef().begin(), integers.asArrayRef().end());
    return std::vector<int64_t>(integers.asArrayRef());
  }
  if (auto reals = dyn_cast<DenseF64ArrayAttr>(attribute))
    return std::vector<double>(reals.asArrayRef());
  if (auto booleans = dyn_cast<DenseBoolArrayAttr>(attribute)) {
    c10::List<bool> list;
    for (bool element : booleans.asArrayRef())
      list.push_back(element);
    return list;
  }
  auto elements = dyn_cast<ArrayAttr>(attribute);
  if (!elements)
    return makeLiteral(attribute, type);
  c10::TypePtr element = type->expect<c10::ListType>()->getElementType();
  if (stripOptional(element)->kind() == c10::TypeKind::TensorType)
    return makeTensorList(elements, element, operands);
  return makeScalarList(elements, element);
}
