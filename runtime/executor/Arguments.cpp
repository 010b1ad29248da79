//===- Arguments.cpp - From a plan's arguments to torch's ------------------===//

#include "executor/Arguments.h"
#include "fsdp/Frontend/Operators.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>

#include <bit>
#include <optional>
#include <string_view>

using namespace fsdp::rt;
using c10::IValue;
using c10::TypeKind;

Result<c10::OperatorHandle> fsdp::rt::findOperator(const PlanView &view, const fsdp_entry &entry) {
  registerOperators();
  std::optional<c10::OperatorHandle> op = c10::Dispatcher::singleton().findSchema(
      {view.string(entry.callee), view.string(entry.overload)});
  if (!op && !std::string_view(view.string(entry.callee)).starts_with("aten::"))
    return Status::error("torch does not have operator " + view.describeEntry(entry) +
                         ": name the library that does by --load-library");
  if (!op)
    return Status::error("this LibTorch has no operator " + view.describeEntry(entry));
  return *op;
}

namespace {
/// Converts one argument; no value if its kind does not fit the type in the schema.
class Converter {
public:
  Converter(const PlanView &view, std::span<const at::Tensor> tensors, c10::Device device,
            unsigned rank)
      : view(view), tensors(tensors), device(device), rank(rank) {}

  std::optional<IValue> convert(const fsdp_argument &argument, c10::TypePtr type,
                                std::optional<int32_t> length) const;

private:
  std::optional<IValue> scalar(const c10::Scalar &number, const c10::Type &type) const;
  std::optional<IValue> list(const fsdp_argument &argument, const c10::Type &element) const;
  std::optional<IValue> numbers(const fsdp_argument &argument, const c10::Type &element) const;

  std::optional<at::Tensor> tensor(int64_t value) const {
    if (value < 0 || !tensors[value].defined())
      return std::nullopt;
    return tensors[value];
  }

  const PlanView &view;
  std::span<const at::Tensor> tensors;
  const c10::Device device;
  const unsigned rank;
};
} // namespace

/// Converts a number for a parameter of `type`.
std::optional<IValue> Converter::scalar(const c10::Scalar &number, const c10::Type &type) const {
  switch (type.kind()) {
  case TypeKind::TensorType: {
    at::Tensor wrapped = c10::scalar_to_tensor(number);
    wrapped.unsafeGetTensorImpl()->set_wrapped_number(true);
    return IValue(std::move(wrapped));
  }
  case TypeKind::NumberType:
    return IValue(number);
  case TypeKind::FloatType:
    return IValue(number.toDouble());
  case TypeKind::IntType:
  case TypeKind::SymIntType:
    if (number.isFloatingPoint())
      return std::nullopt;
    return IValue(number.toLong());
  case TypeKind::BoolType:
    if (number.isFloatingPoint())
      return std::nullopt;
    return IValue(number.toLong() != 0);
  default:
    return std::nullopt;
  }
}

/// Converts a list of numbers for a list of `element`.
std::optional<IValue> Converter::numbers(const fsdp_argument &argument,
                                         const c10::Type &element) const {
  auto fill = [&](auto list, auto convert) {
    list.reserve(argument.count);
    for (int64_t bits : view.integers(argument.index, argument.count))
      list.push_back(convert(bits));
    return IValue(std::move(list));
  };
  bool real = argument.kind == FSDP_ARG_FLOAT_LIST;
  auto asDouble = [&](int64_t bits) {
    return real ? std::bit_cast<double>(bits) : static_cast<double>(bits);
  };
  switch (element.kind()) {
  case TypeKind::FloatType:
    return fill(c10::List<double>(), asDouble);
  case TypeKind::IntType:
  case TypeKind::SymIntType:
    if (real)
      return std::nullopt;
    return fill(c10::List<int64_t>(), [](int64_t bits) { return bits; });
  case TypeKind::BoolType:
    if (real)
      return std::nullopt;
    return fill(c10::List<bool>(), [](int64_t bits) { return bits != 0; });
  case TypeKind::NumberType: {
    c10::impl::GenericList list(c10::NumberType::get());
    for (int64_t bits : view.integers(argument.index, argument.count)) {
      if (real)
        list.push_back(IValue(asDouble(bits)));
      else if (argument.kind == FSDP_ARG_BOOL_LIST)
        list.push_back(IValue(bits != 0));
      else
        list.push_back(IValue(bits));
    }
    return IValue(std::move(list));
  }
  default:
    return std::nullopt;
  }
}

std::optional<IValue> Converter::list(const fsdp_argument &argument,
                                      const c10::Type &element) const {
  if (argument.kind != FSDP_ARG_VALUE_LIST) {
    // An empty list does not tell the type of its elements.
    if (argument.count == 0 && element.kind() == TypeKind::TensorType)
      return IValue(c10::List<at::Tensor>());
    return numbers(argument, element);
  }
  std::span<const int64_t> values = view.integers(argument.index, argument.count);
  if (element.kind() == TypeKind::TensorType) {
    c10::List<at::Tensor> list;
    list.reserve(values.size());
    for (int64_t value : values) {
      std::optional<at::Tensor> item = tensor(value);
      if (!item)
        return std::nullopt;
      list.push_back(std::move(*item));
    }
    return IValue(std::move(list));
  }
  const auto *optional = element.castRaw<c10::OptionalType>();
  if (optional && optional->getElementType()->kind() == TypeKind::TensorType) {
    c10::List<std::optional<at::Tensor>> list;
    list.reserve(values.size());
    for (int64_t value : values)
      list.push_back(tensor(value));
    return IValue(std::move(list));
  }
  if (values.empty())
    return numbers(argument, element);
  return std::nullopt;
}

std::optional<IValue> Converter::convert(const fsdp_argument &argument, c10::TypePtr type,
                                         std::optional<int32_t> length) const {
  bool isOptional = false;
  if (const auto *optional = type->castRaw<c10::OptionalType>()) {
    isOptional = true;
    type = optional->getElementType();
  }
  const auto *listType = type->castRaw<c10::ListType>();
  switch (argument.kind) {
  case FSDP_ARG_NONE:
    if (isOptional || type->kind() == TypeKind::NoneType)
      return IValue();
    if (type->kind() == TypeKind::TensorType)
      return IValue(at::Tensor());
    return std::nullopt;
  case FSDP_ARG_VALUE: {
    if (type->kind() != TypeKind::TensorType)
      return std::nullopt;
    std::optional<at::Tensor> value = tensor(argument.index);
    if (!value && isOptional)
      return IValue();
    return IValue(value ? *value : at::Tensor());
  }
  case FSDP_ARG_INT:
  case FSDP_ARG_BOOL:
  case FSDP_ARG_FLOAT: {
    c10::Scalar number = argument.kind == FSDP_ARG_FLOAT ? c10::Scalar(argument.payload.real)
                         : argument.kind == FSDP_ARG_BOOL
                             ? c10::Scalar(argument.payload.integer != 0)
                             : c10::Scalar(argument.payload.integer);
    // `int[2] stride` also takes a single number, for all elements.
    if (listType && length && argument.kind == FSDP_ARG_INT) {
      c10::List<int64_t> list;
      for (int32_t i = 0; i < *length; ++i)
        list.push_back(argument.payload.integer);
      return IValue(std::move(list));
    }
    return scalar(number, *type);
  }
  case FSDP_ARG_STRING:
    if (type->kind() != TypeKind::StringType)
      return std::nullopt;
    return IValue(std::string(view.string(argument.index)));
  case FSDP_ARG_VALUE_LIST:
  case FSDP_ARG_INT_LIST:
  case FSDP_ARG_FLOAT_LIST:
  case FSDP_ARG_BOOL_LIST:
    if (!listType)
      return std::nullopt;
    return list(argument, *listType->getElementType());
  // The schema has the type int for these.
  case FSDP_ARG_DTYPE:
  case FSDP_ARG_MEMORY_FORMAT:
    if (type->kind() != TypeKind::IntType)
      return std::nullopt;
    return IValue(argument.payload.integer);
  case FSDP_ARG_LAYOUT:
    if (type->kind() != TypeKind::IntType)
      return std::nullopt;
    return IValue(static_cast<int64_t>(c10::Layout::Strided));
  case FSDP_ARG_PART: // shards of one replica have consecutive ranks
    if (type->kind() != TypeKind::IntType)
      return std::nullopt;
    return IValue(static_cast<int64_t>(rank) % argument.payload.integer);
  case FSDP_ARG_DEVICE:
    if (type->kind() != TypeKind::DeviceObjType)
      return std::nullopt;
    return IValue(device);
  default:
    return std::nullopt;
  }
}

Result<std::vector<IValue>> fsdp::rt::bindArguments(const PlanView &view, const fsdp_entry &entry,
                                                    const c10::OperatorHandle &op,
                                                    std::span<const at::Tensor> tensors,
                                                    c10::Device device, unsigned rank) {
  const std::vector<c10::Argument> &places = op.schema().arguments();
  std::span<const fsdp_argument> given = view.arguments(entry);
  if (given.size() > places.size())
    return Status::error(view.describeEntry(entry) + ": " + std::to_string(given.size()) +
                         " arguments, the operator takes " + std::to_string(places.size()));
  Converter converter(view, tensors, device, rank);
  std::vector<IValue> arguments;
  arguments.reserve(places.size());
  for (size_t i = 0; i < places.size(); ++i) {
    const c10::Argument &place = places[i];
    if (i >= given.size()) {
      if (!place.default_value())
        return Status::error(view.describeEntry(entry) + ": argument '" + place.name() +
                             "' is missing");
      arguments.push_back(*place.default_value());
      continue;
    }
    std::optional<IValue> argument = converter.convert(given[i], place.type(), place.N());
    if (!argument)
      return Status::error(view.describeEntry(entry) + ": argument '" + place.name() +
                           "' is of kind " + std::to_string(given[i].kind) +
                           ", which does not fit its type " + place.type()->str());
    arguments.push_back(std::move(*argument));
  }
  return arguments;
}
