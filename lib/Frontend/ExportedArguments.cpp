//===- ExportedArguments.cpp - Arguments of calls in .pt2 files -----------===//

#include "ExportedArguments.h"

#include <ATen/ops/complex.h>
#include <ATen/ops/full.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

using namespace fsdp::frontend;
using c10::IValue;
using Tag = schema::Argument::Tag;

/// The schema has its own numbering of dtypes: c10's number + 1 up to bool.
at::ScalarType fsdp::frontend::convertDtype(schema::ScalarType dtype) {
  switch (dtype) {
  case schema::ScalarType::BFLOAT16:
    return at::kBFloat16;
  case schema::ScalarType::FLOAT8E4M3FN:
    return at::kFloat8_e4m3fn;
  case schema::ScalarType::FLOAT8E5M2:
    return at::kFloat8_e5m2;
  default:
    break;
  }
  if (dtype > schema::ScalarType::BFLOAT16 || dtype == schema::ScalarType::UNKNOWN)
    throw CaptureError("dtype " + std::string(schema::printEnum(dtype)) + " is not supported");
  return static_cast<at::ScalarType>(static_cast<int>(dtype) - 1);
}

static const char *const dynamicShape = "a shape of the file is dynamic; export with static shapes";

int64_t fsdp::frontend::convertSize(const schema::SymInt &size) {
  if (size.tag() != schema::SymInt::Tag::AS_INT)
    throw CaptureError(dynamicShape);
  return size.get_as_int();
}

std::vector<int64_t> fsdp::frontend::convertSizes(const std::vector<schema::SymInt> &sizes) {
  std::vector<int64_t> result;
  for (const schema::SymInt &size : sizes)
    result.push_back(convertSize(size));
  return result;
}

static int64_t convertSymInt(const schema::SymIntArgument &size) {
  if (size.tag() != schema::SymIntArgument::Tag::AS_INT)
    throw CaptureError(dynamicShape);
  return size.get_as_int();
}

static at::MemoryFormat convertMemoryFormat(schema::MemoryFormat format) {
  switch (format) {
  case schema::MemoryFormat::ContiguousFormat:
    return at::MemoryFormat::Contiguous;
  case schema::MemoryFormat::ChannelsLast:
    return at::MemoryFormat::ChannelsLast;
  case schema::MemoryFormat::ChannelsLast3d:
    return at::MemoryFormat::ChannelsLast3d;
  case schema::MemoryFormat::PreserveFormat:
    return at::MemoryFormat::Preserve;
  default:
    throw CaptureError("unknown memory format");
  }
}

/// A Python number passed for a tensor.
template <typename Number> static IValue makeWrappedNumber(Number value, at::ScalarType dtype) {
  c10::impl::ExcludeDispatchKeyGuard outside(
      c10::DispatchKeySet({c10::DispatchKey::Fake, c10::DispatchKey::Functionalize}));
  at::Tensor number = at::scalar_tensor(value, dtype);
  number.unsafeGetTensorImpl()->set_wrapped_number(true);
  return number;
}

/// A complex number passed for a tensor. The step computes it, since literals are real.
static IValue makeComplex(const schema::ComplexValue &number, const c10::TypePtr &type,
                          at::ScalarType partDtype) {
  if (type->kind() != c10::TypeKind::TensorType)
    throw CaptureError(
        "a complex number where the operator takes no tensor: only tensors may be complex");
  auto part = [&](const schema::F64 &value) {
    return at::full({}, value.get(), at::device(at::kCPU).dtype(partDtype));
  };
  return at::complex(part(number.get_real()), part(number.get_imag()));
}

static IValue convertInt(int64_t value, const c10::TypePtr &type) {
  if (type->kind() == c10::TypeKind::TensorType)
    return makeWrappedNumber(value, at::kLong);
  if (type->kind() == c10::TypeKind::FloatType)
    return static_cast<double>(value);
  return value;
}

static const IValue &find(const ExportedGraph::Values &values, const std::string &name) {
  auto found = values.find(name);
  if (found == values.end())
    throw CaptureError("value '" + name + "' of the file is used before it is made");
  return found->second;
}

static IValue convertTensors(const std::vector<schema::TensorArgument> &list,
                             const c10::TypePtr &element, const ExportedGraph::Values &values) {
  if (element->kind() == c10::TypeKind::OptionalType) {
    c10::List<std::optional<at::Tensor>> tensors;
    for (const schema::TensorArgument &entry : list)
      tensors.push_back(find(values, entry.get_name()).toTensor());
    return tensors;
  }
  c10::List<at::Tensor> tensors;
  for (const schema::TensorArgument &entry : list)
    tensors.push_back(find(values, entry.get_name()).toTensor());
  return tensors;
}

static IValue convertOptionalTensor(const schema::OptionalTensorArgument &argument,
                                    const ExportedGraph::Values &values) {
  if (argument.tag() == schema::OptionalTensorArgument::Tag::AS_TENSOR)
    return find(values, argument.get_as_tensor().get_name());
  return {};
}

static IValue convertOptionalTensors(const std::vector<schema::OptionalTensorArgument> &list,
                                     const ExportedGraph::Values &values) {
  c10::List<std::optional<at::Tensor>> tensors;
  for (const schema::OptionalTensorArgument &entry : list) {
    IValue value = convertOptionalTensor(entry, values);
    tensors.push_back(value.isNone() ? std::nullopt : std::optional(value.toTensor()));
  }
  return tensors;
}

IValue fsdp::frontend::convertExportedArgument(const schema::Argument &argument,
                                               const c10::TypePtr &formal,
                                               const ExportedGraph::Values &values,
                                               at::ScalarType complexParts) {
  c10::TypePtr type = formal;
  if (auto optional = type->cast<c10::OptionalType>())
    type = optional->getElementType();
  auto element = [&] { return type->expect<c10::ListType>()->getElementType(); };
  switch (argument.tag()) {
  case Tag::AS_NONE:
    return {};
  case Tag::AS_TENSOR:
    return find(values, argument.get_as_tensor().get_name());
  case Tag::AS_TENSORS:
    return convertTensors(argument.get_as_tensors(), element(), values);
  case Tag::AS_OPTIONAL_TENSOR:
    return convertOptionalTensor(argument.get_as_optional_tensor(), values);
  case Tag::AS_OPTIONAL_TENSORS:
    return convertOptionalTensors(argument.get_as_optional_tensors(), values);
  case Tag::AS_INT:
    return convertInt(argument.get_as_int(), type);
  case Tag::AS_SYM_INT:
    return convertInt(convertSymInt(argument.get_as_sym_int()), type);
  case Tag::AS_FLOAT: {
    double value = argument.get_as_float().get();
    return type->kind() == c10::TypeKind::TensorType ? makeWrappedNumber(value, at::kDouble)
                                                     : IValue(value);
  }
  case Tag::AS_COMPLEX:
    return makeComplex(argument.get_as_complex(), type, complexParts);
  case Tag::AS_BOOL: {
    bool value = argument.get_as_bool();
    return type->kind() == c10::TypeKind::TensorType ? makeWrappedNumber(value, at::kBool)
                                                     : IValue(value);
  }
  case Tag::AS_INTS:
    if (element()->kind() == c10::TypeKind::FloatType)
      return std::vector<double>(argument.get_as_ints().begin(), argument.get_as_ints().end());
    return argument.get_as_ints();
  case Tag::AS_SYM_INTS: {
    std::vector<int64_t> sizes;
    for (const schema::SymIntArgument &size : argument.get_as_sym_ints())
      sizes.push_back(convertSymInt(size));
    return sizes;
  }
  case Tag::AS_FLOATS: {
    std::vector<double> list;
    for (const schema::F64 &number : argument.get_as_floats())
      list.push_back(number.get());
    return list;
  }
  case Tag::AS_BOOLS: {
    c10::List<bool> list;
    for (bool number : argument.get_as_bools())
      list.push_back(number);
    return list;
  }
  case Tag::AS_STRING:
    return argument.get_as_string();
  case Tag::AS_SCALAR_TYPE:
    return static_cast<int64_t>(convertDtype(argument.get_as_scalar_type()));
  case Tag::AS_DEVICE:
    return c10::Device(argument.get_as_device().get_type());
  case Tag::AS_MEMORY_FORMAT:
    return static_cast<int64_t>(convertMemoryFormat(argument.get_as_memory_format()));
  case Tag::AS_LAYOUT:
    if (argument.get_as_layout() == schema::Layout::Strided)
      return static_cast<int64_t>(at::kStrided);
    throw CaptureError("a layout argument is not torch.strided");
  default:
    throw CaptureError("an argument of kind '" + std::string(schema::printEnum(argument.tag())) +
                       "' is not supported");
  }
}
