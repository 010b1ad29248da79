//===- SplitCalls.cpp - Calls that are several others ----------------------===//

#include "fsdp/Analysis/SplitCalls.h"

#include "fsdp/IR/TensorLayout.h"

#include <limits>

using namespace mlir;
using namespace fsdp;
using aten::CallOp;

static RankedTensorType getType(Value value) { return dyn_cast<RankedTensorType>(value.getType()); }

static std::optional<int64_t> getNumber(CallOp call, size_t place) {
  ArrayAttr arguments = call.getArgs();
  auto integer = place < arguments.size() ? dyn_cast<IntegerAttr>(arguments[place]) : IntegerAttr();
  return integer ? std::optional(integer.getInt()) : std::nullopt;
}

bool fsdp::isLossOfRows(CallOp call) {
  if (call.getCallee() != "nll_loss_forward.default" || call.getArgs().size() != 5 ||
      call.getNumOperands() != (isa<UnitAttr>(call.getArgs()[2]) ? 2 : 3))
    return false;
  RankedTensorType rows = getType(call.getOperand(0)), targets = getType(call.getOperand(1));
  std::optional<int64_t> reduction = getNumber(call, 3);
  return reduction && *reduction >= 0 && *reduction <= 2 && getNumber(call, 4) && rows && targets &&
         rows.getRank() == 2 && rows.getShape().back() > 1 &&
         targets.getElementType().isInteger(64) &&
         targets.getShape() == rows.getShape().drop_back() &&
         llvm::all_of(call.getOperands().drop_front(2), [&](Value weight) {
           return getType(weight) && getType(weight).getElementType() == rows.getElementType();
         });
}

/// How many chunks a tensor of so many rows is summed in; 0 for none. Each is one thread block's of
/// a GPU, whose threads have a vector of each row or a few: about as many as such a device runs at
/// once. They have enough rows that what the chunks' sums take is little beside the tensor, and few
/// enough for a sum of one after another.
static int64_t chooseChunks(int64_t rows, int64_t columns) {
  constexpr int64_t kNumbersAtOnce = 1 << 20, kBlocksAtOnce = 128, kLeastRows = 8, kMostRows = 64;
  const int64_t most = std::max({kNumbersAtOnce / columns, kBlocksAtOnce, rows / kMostRows});
  for (int64_t chunks = std::min(most, rows / kLeastRows); chunks > most / 2; --chunks)
    if (rows % chunks == 0)
      return chunks;
  return 0;
}

namespace {
/// The rows and columns of a sum over all dimensions but the last.
struct SumOfColumns {
  int64_t rows = 1, columns = 1;
};
} // namespace

static std::optional<SumOfColumns> matchSumOfColumns(CallOp call) {
  constexpr size_t kDimensions = 1, kDtype = 3, kArguments = 4;
  if (call.getCallee() != "sum.dim_IntList" || call.getNumOperands() != 1 ||
      call.getNumResults() != 1 || call.getArgs().size() != kArguments ||
      !isa<UnitAttr>(call.getArgs()[kDtype]))
    return std::nullopt;
  auto dimensions = dyn_cast<DenseI64ArrayAttr>(call.getArgs()[kDimensions]);
  RankedTensorType source = getType(call.getOperand(0)), result = getType(call.getResult(0));
  if (!dimensions || !source || !result || source.getRank() < 2 || !isContiguous(source) ||
      !isContiguous(result) || source.getElementType() != result.getElementType() ||
      source.getShape().back() < 2 || source.getNumElements() == 0)
    return std::nullopt;
  Type element = source.getElementType();
  if (!element.isF32() && !element.isBF16() && !element.isF16())
    return std::nullopt;
  SmallVector<int64_t> summed(dimensions.asArrayRef());
  for (int64_t &dimension : summed)
    dimension += dimension < 0 ? source.getRank() : 0;
  llvm::sort(summed);
  if (summed != llvm::to_vector(llvm::seq<int64_t>(0, source.getRank() - 1)))
    return std::nullopt;
  SumOfColumns sum{.columns = source.getShape().back()};
  sum.rows = source.getNumElements() / sum.columns;
  return sum;
}

bool fsdp::isLargeSumOfColumns(CallOp call) {
  std::optional<SumOfColumns> sum = matchSumOfColumns(call);
  return sum && chooseChunks(sum->rows, sum->columns) > 0;
}

namespace {
/// Adds parts one after another.
class Splitter {
public:
  explicit Splitter(CallOp call) : call(call), builder(call.getContext()) {
    numValues = call.getNumOperands();
  }
  SplitCall splitLoss();
  SplitCall splitSum();
  SplitCall splitColumns(const SumOfColumns &sum);

private:
  /// The first result. `arguments`: null at the places of operands.
  unsigned add(StringRef callee, ArrayRef<unsigned> operands, ArrayRef<Attribute> arguments,
               TypeRange types) {
    SplitCall::Part &part = made.parts.emplace_back();
    part.callee = callee;
    part.operands.assign(operands.begin(), operands.end());
    part.results.assign(types.begin(), types.end());
    for (Attribute argument : arguments)
      part.arguments.push_back(argument ? argument : aten::OperandAttr::get(builder.getContext()));
    numValues += types.size();
    return numValues - types.size();
  }
  Attribute integer(int64_t value) { return builder.getI64IntegerAttr(value); }
  unsigned pick(unsigned rows, unsigned indices, int64_t dimension, RankedTensorType type) {
    return add("gather.default", {rows, indices},
               {nullptr, integer(dimension), nullptr, builder.getBoolAttr(false)}, type);
  }
  unsigned addColumn(unsigned value, RankedTensorType type) {
    return add("unsqueeze.default", value, {nullptr, integer(1)},
               RankedTensorType::get({type.getDimSize(0), 1}, type.getElementType()));
  }

  CallOp call;
  Builder builder;
  unsigned numValues;
  SplitCall made;
};
} // namespace

SplitCall Splitter::splitLoss() {
  constexpr unsigned kRows = 0, kTargets = 1, kWeight = 2;
  RankedTensorType type = getType(call.getOperand(kTargets));
  Type element = getType(call.getOperand(kRows)).getElementType();
  const RankedTensorType perRow = RankedTensorType::get(type.getShape(), element),
                         column = RankedTensorType::get({type.getDimSize(0), 1}, element);
  const int64_t reduction = *getNumber(call, 3), mean = 1, sum = 2;
  int64_t ignored = *getNumber(call, 4);
  unsigned targets = kTargets;
  if (ignored >= 0) {
    unsigned isIgnored = add("eq.Scalar", targets, {nullptr, integer(ignored)},
                             RankedTensorType::get(type.getShape(), builder.getI1Type()));
    ignored = std::numeric_limits<int64_t>::min(); // no target that is wrong becomes one ignored
    targets =
        add("masked_fill.Scalar", {targets, isIgnored}, {nullptr, nullptr, integer(ignored)}, type);
  }
  unsigned classes = add("clamp_min.default", targets, {nullptr, integer(0)}, type);
  unsigned picked = pick(kRows, addColumn(classes, type), 1, column);
  unsigned left = add("clamp_max.default", targets, {nullptr, integer(0)}, type);
  auto addLoss = [&](unsigned rows, int64_t how, TypeRange types) {
    return add("nll_loss_forward.default", {rows, left},
               {nullptr, nullptr, builder.getUnitAttr(), integer(how), integer(ignored)}, types);
  };
  if (call.getNumOperands() == 2) {
    unsigned loss = addLoss(picked, reduction, call.getResultTypes());
    made.results = {loss, loss + 1};
    return std::move(made);
  }
  unsigned weights = addColumn(pick(kWeight, classes, 0, perRow), perRow);
  unsigned product = add("mul.Tensor", {picked, weights}, {nullptr, nullptr}, column);
  unsigned loss = addLoss(product, reduction == mean ? sum : reduction, call.getResultTypes());
  if (reduction == 0) {
    made.results = {loss, loss + 1};
    return std::move(made);
  }
  unsigned total =
      addLoss(add("neg.default", weights, {nullptr}, column), sum, call.getResultTypes());
  if (reduction == mean)
    loss = add("div.Tensor", {loss, total}, {nullptr, nullptr}, call.getResultTypes()[0]);
  made.results = {loss, total};
  return std::move(made);
}

SplitCall Splitter::splitSum() {
  SmallVector<Attribute> arguments(call.getArgs().getValue());
  arguments[2] = builder.getBoolAttr(true);
  auto type = getType(call.getResult(0));
  SmallVector<int64_t> kept(type.getShape());
  kept.push_back(1);
  unsigned sum =
      add(call.getCallee(), 0, arguments, RankedTensorType::get(kept, type.getElementType()));
  made.results = {add("squeeze.dim", sum, {nullptr, integer(type.getRank())}, type)};
  return std::move(made);
}

/// What is rounded ends in a view: a cast that is the last call would be taken for one of the
/// gradient's (GradientRounding.h).
SplitCall Splitter::splitColumns(const SumOfColumns &sum) {
  const int64_t chunks = chooseChunks(sum.rows, sum.columns);
  RankedTensorType type = getType(call.getResult(0));
  Type element = type.getElementType(), f32 = builder.getF32Type();
  const SmallVector<int64_t> cut{chunks, sum.rows / chunks, sum.columns};
  auto integers = [&](ArrayRef<int64_t> values) { return builder.getDenseI64ArrayAttr(values); };
  const Attribute none = builder.getUnitAttr(), no = builder.getBoolAttr(false);
  auto addSum = [&](unsigned value, int64_t dimension, Attribute dtype, ArrayRef<int64_t> shape) {
    return add("sum.dim_IntList", value, {nullptr, integers(dimension), no, dtype},
               RankedTensorType::get(shape, f32));
  };
  unsigned value =
      add("view.default", 0, {nullptr, integers(cut)}, RankedTensorType::get(cut, element));
  value = addSum(value, 1, TypeAttr::get(f32), {chunks, sum.columns});
  value = addSum(value, 0, TypeAttr::get(f32), sum.columns); // not to be split itself
  if (element != f32)
    value = add("_to_copy.default", value,
                {nullptr, TypeAttr::get(element), none, none, none, no, none},
                RankedTensorType::get(sum.columns, element));
  made.results = {add("view.default", value, {nullptr, integers(type.getShape())}, type)};
  return std::move(made);
}

/// Of the last of several dimensions, which the result does not have.
static bool isSumOfRows(CallOp call) {
  const StringRef callee = call.getCallee();
  if ((callee != "sum.dim_IntList" && callee != "mean.dim" && callee != "logsumexp.default") ||
      call.getNumOperands() != 1 || call.getNumResults() != 1 || call.getArgs().size() < 3)
    return false;
  auto dimensions = dyn_cast<DenseI64ArrayAttr>(call.getArgs()[1]);
  auto keeps = dyn_cast<BoolAttr>(call.getArgs()[2]);
  RankedTensorType source = getType(call.getOperand(0)), result = getType(call.getResult(0));
  return dimensions && dimensions.size() == 1 && keeps && !keeps.getValue() && source && result &&
         source.getRank() >= 2 && (dimensions[0] == -1 || dimensions[0] == source.getRank() - 1) &&
         isContiguous(source) && isContiguous(result);
}

std::optional<SplitCall> fsdp::splitCall(CallOp call) {
  if (isLossOfRows(call))
    return Splitter(call).splitLoss();
  if (isSumOfRows(call))
    return Splitter(call).splitSum();
  if (isLargeSumOfColumns(call))
    return Splitter(call).splitColumns(*matchSumOfColumns(call));
  return std::nullopt;
}
