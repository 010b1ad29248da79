//===- RowOperator.cpp - Operators that work row by row --------------------===//

#include "cpu/RowOperator.h"
#include "cpu/KernelTrial.h"
#include "cpu/RowKernels.h"

#include <algorithm>
#include <string_view>

using namespace fsdp::rt;

namespace {
/// A call, as its parts are looked at.
struct Call {
  const c10::OperatorHandle &op;
  const std::vector<c10::IValue> &arguments;
  int threads;

  bool is(std::string_view name, std::string_view overload) const {
    return op.schema().name() == name && op.schema().overload_name() == overload;
  }
  bool isTensor(size_t i) const {
    return arguments[i].isTensor() && isPlainFloat(arguments[i].toTensor());
  }
  bool isOne(size_t i) const { return arguments[i].isScalar() && numberOf(i) == 1; }
  double numberOf(size_t i) const { return arguments[i].toScalar().toDouble(); }
  const at::Tensor &tensor(size_t i) const { return arguments[i].toTensor(); }
  /// True if argument `i` is the list of `wanted` dimensions of a tensor of `dimensions`.
  bool areDimensions(size_t i, std::vector<int64_t> wanted, int64_t dimensions) const {
    if (!arguments[i].isIntList())
      return false;
    std::vector<int64_t> list = arguments[i].toIntVector();
    for (int64_t &dimension : list)
      dimension += dimension < 0 ? dimensions : 0;
    std::sort(list.begin(), list.end());
    return list == wanted;
  }
};
} // namespace

/// The sizes of the dimensions that number the rows, or nothing if there are too many.
static std::optional<RowSizes> rowSizesOf(const at::Tensor &tensor) {
  if (tensor.dim() < 1 || tensor.dim() > kRowDimensions + 1)
    return std::nullopt;
  RowSizes sizes{1, 1, 1};
  for (int64_t i = 2; i <= tensor.dim(); ++i)
    sizes[kRowDimensions + 1 - i] = tensor.size(-i);
  return sizes;
}

/// The layout of a tensor that is broadcast to rows of `columns`; nothing if it does not fit or its
/// rows are not contiguous. `columns` -1: any number of them.
static std::optional<RowLayout> layoutOf(const at::Tensor &tensor, const RowSizes &sizes,
                                         int64_t columns) {
  if (tensor.dim() > kRowDimensions + 1)
    return std::nullopt;
  RowLayout layout;
  int64_t own = tensor.dim() > 0 ? tensor.size(-1) : 1;
  layout.columns = columns < 0 ? own : columns;
  if (own != layout.columns && own != 1)
    return std::nullopt;
  int64_t stride = own == 1 ? 0 : tensor.stride(-1);
  if (stride != 0 && stride != 1)
    return std::nullopt;
  layout.columnStride = layout.columns == 1 ? 1 : stride;
  for (int64_t i = 2; i <= tensor.dim(); ++i) {
    int64_t place = kRowDimensions + 1 - i, size = tensor.size(-i);
    if (size != sizes[place] && size != 1)
      return std::nullopt;
    layout.strides[place] = size == 1 ? 0 : tensor.stride(-i);
  }
  return layout;
}

/// The rows' kind and number, from what comes behind the tensors; nothing if it is none of them.
static std::optional<std::pair<RowKind, float>> kindOf(const Call &call) {
  auto with = [](RowKind kind, double number = 0) {
    return std::pair(kind, static_cast<float>(number));
  };
  auto isNumber = [&](size_t i) { return call.arguments[i].isScalar(); };
  if (call.is("aten::mul", "Tensor"))
    return with(RowKind::Multiply);
  if (call.is("aten::add", "Tensor") && call.isOne(2))
    return with(RowKind::Add);
  if (call.is("aten::mul", "Scalar") && isNumber(1))
    return with(RowKind::MultiplyByNumber, call.numberOf(1));
  if (call.is("aten::add", "Scalar") && isNumber(1) && call.isOne(2))
    return with(RowKind::AddNumber, call.numberOf(1));
  if (call.is("aten::div", "Scalar") && isNumber(1))
    return with(RowKind::DivideByNumber, call.numberOf(1));
  if (call.is("aten::neg", ""))
    return with(RowKind::Negate);
  if (call.is("aten::rsqrt", ""))
    return with(RowKind::ReciprocalRoot);
  if (call.is("aten::silu", ""))
    return with(RowKind::Silu);
  if (call.is("aten::silu_backward", ""))
    return with(RowKind::SiluBackward);
  if (call.is("aten::pow", "Tensor_Scalar") && isNumber(1)) {
    double exponent = call.numberOf(1);
    if (exponent == 1)
      return with(RowKind::Copy);
    if (exponent == 2)
      return with(RowKind::Square);
    if (exponent == 3)
      return with(RowKind::Cube);
  }
  return std::nullopt;
}

/// True if torch computes all elements by vectors: what is left over at the end of a thread's part
/// goes through the scalar library function, whose result may be another.
static bool isWholeVectors(const at::Tensor &tensor, int threads) {
  constexpr int64_t kTorchStep = 32;
  for (int count = 1; count <= threads; ++count)
    if (tensor.numel() % (kTorchStep * count) != 0)
      return false;
  return tensor.is_contiguous();
}

/// A sum or a mean, along rows or over all of them.
static std::optional<RowOperator> reductionOf(const Call &call, const at::Tensor &result) {
  bool isMean = call.is("aten::mean", "dim");
  if ((!isMean && !call.is("aten::sum", "dim_IntList")) || call.arguments.size() != 4 ||
      !call.isTensor(0) || !call.arguments[3].isNone())
    return std::nullopt;
  const at::Tensor &input = call.tensor(0);
  std::optional<RowSizes> sizes = rowSizesOf(input);
  const int64_t dimensions = input.dim(), columns = sizes ? input.size(-1) : 0;
  if (!sizes || !input.is_contiguous() || !result.is_contiguous())
    return std::nullopt;
  RowOperator reduction;
  RowShape &shape = reduction.shape;
  shape.sizes = *sizes;
  shape.inputs = {*layoutOf(input, *sizes, columns)};
  reduction.inputs = {input.mutable_data_ptr<float>()};
  reduction.output = result.mutable_data_ptr<float>();
  std::vector<int64_t> leading;
  for (int64_t i = 0; i + 1 < dimensions; ++i)
    leading.push_back(i);
  if (call.areDimensions(1, {dimensions - 1}, dimensions)) {
    if (columns % kRowSumStep != 0 || columns / kRowSumStep > kSumNumbers)
      return std::nullopt;
    shape.kind = isMean ? RowKind::RowMean : RowKind::RowSum;
    shape.output = {{(*sizes)[1] * (*sizes)[2], (*sizes)[2], 1}, 1, 1};
    return reduction;
  }
  // Rows are added in their order, by one thread.
  if (isMean || leading.empty() || call.threads != 1 || columns % kRowSumStep != 0 ||
      input.numel() / columns > kSumNumbers || !call.areDimensions(1, leading, dimensions))
    return std::nullopt;
  shape.kind = RowKind::ColumnSum;
  shape.output = {{}, columns, 1};
  return reduction;
}

static std::optional<RowOperator> concatenationOf(const Call &call, const at::Tensor &result) {
  if (!call.is("aten::cat", "") || !call.arguments[0].isTensorList())
    return std::nullopt;
  std::optional<RowSizes> sizes = rowSizesOf(result);
  int64_t dimension = call.arguments[1].toInt();
  if (!sizes || (dimension != -1 && dimension != result.dim() - 1))
    return std::nullopt;
  std::optional<RowLayout> output = layoutOf(result, *sizes, -1);
  if (!output)
    return std::nullopt;
  RowOperator cat{{RowKind::Concatenate, *sizes, 0, {}, *output}, {}, nullptr};
  const std::vector<at::Tensor> parts = call.arguments[0].toTensorVector();
  if (parts.size() > kMostRowInputs)
    return std::nullopt;
  for (const at::Tensor &part : parts) {
    if (!isPlainFloat(part) || part.dim() != result.dim())
      return std::nullopt;
    std::optional<RowLayout> layout = layoutOf(part, *sizes, -1);
    if (!layout || layout->columnStride != 1)
      return std::nullopt;
    cat.shape.inputs.push_back(*layout);
    cat.inputs.push_back(part.mutable_data_ptr<float>());
  }
  cat.output = result.mutable_data_ptr<float>();
  return cat;
}

std::optional<RowOperator> RowOperator::of(const c10::OperatorHandle &op,
                                           const std::vector<c10::IValue> &arguments,
                                           std::span<const at::Tensor> results, int threads) {
  if (!areRowKernelsSupported() || results.size() != 1 || !isPlainFloat(results[0]) ||
      arguments.empty())
    return std::nullopt;
  const at::Tensor &result = results[0];
  const Call call{op, arguments, threads};
  if (std::optional<RowOperator> cat = concatenationOf(call, result))
    return cat;
  if (std::optional<RowOperator> reduction = reductionOf(call, result))
    return reduction;
  std::optional<std::pair<RowKind, float>> kind = kindOf(call);
  std::optional<RowSizes> sizes = rowSizesOf(result);
  if (!kind || !sizes || kind->second != kind->second)
    return std::nullopt;
  std::optional<RowLayout> output = layoutOf(result, *sizes, result.size(-1));
  if (!output || output->columnStride != 1)
    return std::nullopt;
  bool isPair = kind->first == RowKind::Multiply || kind->first == RowKind::Add ||
                kind->first == RowKind::SiluBackward;
  RowOperator found{{kind->first, *sizes, kind->second, {}, *output}, {}, nullptr};
  found.output = result.mutable_data_ptr<float>();
  for (size_t i = 0; i < (isPair ? 2u : 1u); ++i) {
    if (!call.isTensor(i))
      return std::nullopt;
    std::optional<RowLayout> layout = layoutOf(call.tensor(i), *sizes, output->columns);
    if (!layout)
      return std::nullopt;
    if ((kind->first == RowKind::Silu || kind->first == RowKind::SiluBackward) &&
        (!isWholeVectors(call.tensor(i), threads) || !isWholeVectors(result, threads) ||
         call.tensor(i).sizes() != result.sizes()))
      return std::nullopt;
    found.shape.inputs.push_back(*layout);
    found.inputs.push_back(call.tensor(i).mutable_data_ptr<float>());
  }
  return found;
}
