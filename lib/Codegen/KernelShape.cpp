//===- KernelShape.cpp - The iteration space of a kernel ------------------===//

#include "fsdp/Codegen/KernelShape.h"

#include "fsdp/Codegen/Rearrangement.h"
#include "fsdp/Codegen/ScalarCode.h"
#include "fsdp/IR/TensorLayout.h"
#include "llvm/ADT/DenseSet.h"

#include <array>
#include <numeric>
#include <set>

using namespace mlir;
using namespace fsdp;
using namespace fsdp::codegen;

SmallVector<int64_t> fsdp::codegen::getRowShape(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> rows(shape);
  if (!rows.empty())
    rows.back() = 1;
  return rows;
}

static RankedTensorType getType(Value value) { return cast<RankedTensorType>(value.getType()); }

/// True if a tensor of `shape` can be broadcast to `domain`.
static bool isBroadcast(ArrayRef<int64_t> shape, ArrayRef<int64_t> domain) {
  if (shape.size() > domain.size())
    return false;
  for (auto [size, whole] : llvm::zip_equal(shape, domain.take_back(shape.size())))
    if (size != 1 && size != whole)
      return false;
  return true;
}

namespace {
/// Finds the first columns of a row's segments.
class SegmentFinder {
public:
  explicit SegmentFinder(int64_t columns) : columns(columns), begins{0, columns} {}
  /// Visits the values that column 0 of the domain reads if `value` is read `shift` columns later;
  /// false if there are too many.
  bool visit(Value value, int64_t shift);
  SmallVector<int64_t> get() const { return {begins.begin(), begins.end()}; }
  int64_t getUnit() const {
    int64_t all = unit;
    for (int64_t begin : begins)
      all = std::gcd(all, begin == columns ? 0 : begin);
    return all;
  }

private:
  /// Limits the code for concatenations of concatenations.
  static constexpr size_t kMostPlaces = 512;
  int64_t columns, unit = 0;
  std::set<int64_t> begins;
  llvm::DenseSet<std::pair<Value, int64_t>> visited;
};
} // namespace

bool SegmentFinder::visit(Value value, int64_t shift) {
  unit = std::gcd(unit, shift);
  auto call = value.getDefiningOp<aten::CallOp>();
  if (!call || !visited.insert({value, shift}).second)
    return true;
  if (visited.size() > kMostPlaces)
    return false;
  if (isColumnConcatenation(call)) {
    for (Value part : call.getOperands()) {
      if (-shift > 0 && -shift < columns)
        begins.insert(-shift);
      if (!visit(part, shift))
        return false;
      shift -= getType(part).getShape().back();
    }
    return true;
  }
  if (std::optional<ColumnOf> source = findColumn(cast<OpResult>(value), shift))
    return visit(source->value, source->column);
  return llvm::all_of(call.getOperands(), [&](Value operand) { return visit(operand, shift); });
}

SmallVector<int64_t> fsdp::codegen::flattenRows(ArrayRef<int64_t> shape) {
  int64_t rows = 1;
  for (int64_t size : shape.empty() ? shape : shape.drop_back())
    rows *= size;
  return {rows, shape.empty() ? 1 : shape.back()};
}

/// True if the shapes have the same rows.
static bool hasRows(ArrayRef<int64_t> shape, ArrayRef<int64_t> domain, bool isFlat) {
  if (isFlat)
    return flattenRows(shape)[0] == flattenRows(domain)[0];
  return ArrayRef<int64_t>(getRowShape(shape)) == ArrayRef<int64_t>(getRowShape(domain));
}

/// The strides of rows and of columns, in elements; 0 for a single row or column. nullopt if the
/// distance between rows varies.
static std::optional<std::array<int64_t, 2>> getFlatStrides(RankedTensorType type) {
  const TensorLayout layout = getTensorLayout(type);
  std::array<int64_t, 2> flat{0, 0};
  int64_t rows = 1; // of the dimensions visited so far, from the last but one
  for (int64_t i = type.getRank() - 1; i >= 0; --i) {
    if (type.getDimSize(i) == 1)
      continue;
    if (i == type.getRank() - 1) {
      flat[1] = layout.strides[i];
      continue;
    }
    if (rows == 1)
      flat[0] = layout.strides[i];
    else if (layout.strides[i] != flat[0] * rows)
      return std::nullopt;
    rows *= type.getDimSize(i);
  }
  return flat;
}

/// A tensor with all rows, with one, or with the same row repeated, at a constant distance.
static bool isFlatOperand(RankedTensorType type, ArrayRef<int64_t> domain) {
  const SmallVector<int64_t> own = flattenRows(type.getShape()), all = flattenRows(domain);
  return getFlatStrides(type) && (own[0] == 1 || own[0] == all[0]) &&
         (own[1] == 1 || own[1] == all[1]);
}

Value fsdp::codegen::getDomainValue(aten::CallOp call, Rounding rounding) {
  const bool addsUp = isRowReduction(call, rounding) || isColumnSum(call, rounding);
  return addsUp ? call.getOperand(0) : call.getResult(0);
}

bool fsdp::codegen::canFlatten(aten::CallOp call, Rounding rounding) {
  ArrayRef<int64_t> domain = getType(getDomainValue(call, rounding)).getShape();
  return isContiguous(getType(call.getResult(0))) && !isColumnConcatenation(call) &&
         llvm::all_of(call->getOpOperands(), [&](OpOperand &use) {
           return isRowOperand(use, rounding) || isFlatOperand(getType(use.get()), domain);
         });
}

std::optional<KernelShape> KernelShape::of(KernelOp kernel, std::string &problem) {
  KernelShape shape;
  Block &body = kernel.getBody().front();
  auto isReduction = [&](aten::CallOp call) { return isRowReduction(call, kernel.getRounding()); };
  auto addsColumns = [&](aten::CallOp call) { return isColumnSum(call, kernel.getRounding()); };
  // The largest shape that is stored or summed.
  int64_t most = 0;
  auto consider = [&](Value value) {
    if (int64_t elements = getType(value).getNumElements();
        elements > most || (elements == most &&
                            getType(value).getRank() > static_cast<int64_t>(shape.domain.size()))) {
      most = elements;
      shape.domain = llvm::to_vector(getType(value).getShape());
    }
  };
  llvm::for_each(kernel.getYielded(), consider);
  for (auto call : body.getOps<aten::CallOp>())
    if (isReduction(call) || addsColumns(call))
      consider(call.getOperand(0));
  const SmallVector<int64_t> counted = shape.domain; // the row dimensions of one of the calls
  for (auto call : body.getOps<aten::CallOp>())
    for (Value result : call.getResults())
      shape.isFlat |= !hasRows(getType(result).getShape(), counted, /*isFlat=*/false);
  if (shape.isFlat)
    shape.domain = flattenRows(counted);
  auto isDomain = [&](ArrayRef<int64_t> own) {
    return shape.isFlat ? flattenRows(own) == shape.domain : own == ArrayRef<int64_t>(shape.domain);
  };
  auto refuse = [&](aten::CallOp call, const Twine &why) {
    problem = ("'" + call.getCallee() + "' " + why).str();
    return std::nullopt;
  };
  const SmallVector<int64_t> rows = getRowShape(shape.domain);
  for (auto call : body.getOps<aten::CallOp>()) {
    bool fits = !shape.isFlat || isKernelView(call) || canFlatten(call, kernel.getRounding());
    if (isReduction(call)) {
      fits &= isDomain(getType(call.getOperand(0)).getShape());
      shape.byRows = true;
    } else if (addsColumns(call)) {
      ArrayRef<int64_t> own = getType(call.getOperand(0)).getShape();
      fits &= isDomain(own) && (shape.chunkRows == 0 || shape.chunkRows == own[1]) &&
              llvm::all_of(call->getUsers(), llvm::IsaPred<YieldOp>);
      shape.chunkRows = own[1];
      shape.byRows = true;
    } else if (isRowOperator(call, kernel.getRounding())) {
      fits &= isDomain(getType(call.getResult(0)).getShape());
      shape.byRows = true;
    } else if (isRearrangement(call)) {
      shape.byRows |= isColumnSlice(call) || isColumnConcatenation(call);
    } else if (isElementwise(call, kernel.getRounding())) {
      for (Value operand : call.getOperands())
        fits &= isBroadcast(getType(operand).getShape(), getType(call.getResult(0)).getShape());
    } else {
      return refuse(call, "is no operator of kernels with rounding " +
                              stringifyRounding(kernel.getRounding()));
    }
    for (Value result : addsColumns(call) ? ValueRange() : ValueRange(call.getResults())) {
      fits &= hasRows(getType(result).getShape(), shape.domain, shape.isFlat);
      shape.byRows |= shape.isFlat || !isDomain(getType(result).getShape());
    }
    if (!fits)
      return refuse(call, "has a shape that does not fit the kernel's");
  }
  SegmentFinder finder(shape.domain.empty() ? 1 : shape.domain.back());
  auto visit = [&](Value value) { return finder.visit(value, 0); };
  bool isSmall = llvm::all_of(kernel.getYielded(), visit);
  for (auto call : body.getOps<aten::CallOp>())
    if (isReduction(call) || isRowOperator(call, kernel.getRounding()))
      for (OpOperand &use : call->getOpOperands())
        isSmall &= isRowOperand(use, kernel.getRounding()) || visit(use.get());
  if (!isSmall) {
    problem = "it concatenates too much";
    return std::nullopt;
  }
  shape.segments = finder.get();
  shape.columnUnit = finder.getUnit();
  if (shape.segments.size() > 2 && shape.domain.back() > 8192) {
    problem = "it concatenates rows of more than 8192 numbers";
    return std::nullopt;
  }
  for (Value value : kernel.getYielded()) {
    auto call = value.getDefiningOp<aten::CallOp>();
    ArrayRef<int64_t> own = getType(value).getShape();
    if (isKernelView(call))
      return refuse(call, "is a view, and a result of the kernel");
    if (!addsColumns(call) && !isDomain(own) &&
        (shape.isFlat ? flattenRows(own) != rows : own != ArrayRef<int64_t>(rows)))
      return refuse(call, "has a shape that does not fit the kernel's");
  }
  for (BlockArgument argument : body.getArguments()) {
    ArrayRef<int64_t> own = getType(argument).getShape();
    bool fits = own.size() <= shape.domain.size() &&
                (own.empty() || isBroadcast(own.drop_back(), ArrayRef(shape.domain).drop_back()));
    if (shape.isFlat)
      fits = isFlatOperand(getType(argument), counted);
    auto isOfRowsOnly = [&](OpOperand &use) { return isRowOperand(use, kernel.getRounding()); };
    if (!argument.use_empty() && llvm::all_of(argument.getUses(), isOfRowsOnly))
      fits = own.size() == 1 && own.front() == flattenRows(counted)[0];
    if (!fits) {
      problem = "operand #" + std::to_string(argument.getArgNumber()) +
                " has a shape that does not fit the kernel's";
      return std::nullopt;
    }
  }
  return shape;
}

bool KernelShape::isOfRows(RankedTensorType type) const {
  return domain.empty() || domain.back() == 1 || type.getRank() == 0 ||
         (type.getShape().back() == 1);
}

SmallVector<int64_t> KernelShape::getStrides(Value tensor) const {
  RankedTensorType type = getType(tensor);
  SmallVector<int64_t> strides(domain.size(), 0);
  TensorLayout layout = getTensorLayout(type);
  if (llvm::any_of(tensor.getUses(),
                   [](OpOperand &use) { return isRowOperand(use, Rounding::Fast); })) {
    strides[strides.size() - 2] = layout.strides.empty() ? 0 : layout.strides.front();
    return strides;
  }
  if (auto call = tensor.getDefiningOp<aten::CallOp>(); call && isColumnSum(call, Rounding::Fast)) {
    strides.back() = 1;
    return strides;
  }
  if (isFlat) {
    std::array<int64_t, 2> flat = *getFlatStrides(type);
    return {flat.begin(), flat.end()};
  }
  const size_t missing = domain.size() - type.getRank();
  for (auto [i, size] : llvm::enumerate(type.getShape()))
    if (size != 1)
      strides[missing + i] = layout.strides[i];
  return strides;
}
