//===- SplitCalls.cpp - Calls as several simpler calls --------------------===//

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

/// The number of chunks for a sum over this many rows; 0 for no split. One thread block of a GPU
/// sums a chunk, with one or a few vectors of each row per thread. There are about as many chunks
/// as blocks run at once. A chunk has enough rows for its sum to be small beside the tensor, and
/// few enough for a sequential sum.
static int64_t chooseChunks(int64_t rows, int64_t columns) {
  constexpr int64_t kElementsAtOnce = 1 << 20, kBlocksAtOnce = 128, kLeastRows = 8, kMostRows = 64,
                    kLeastColumns = 32;
  if (columns < kLeastColumns)
    return 0;
  const int64_t most = std::max({kElementsAtOnce / columns, kBlocksAtOnce, rows / kMostRows});
  for (int64_t chunks = std::min(most, rows / kLeastRows); chunks > most / 2; --chunks)
    if (rows % chunks == 0)
      return chunks;
  return 0;
}

static bool isFloat(Type element) { return element.isF32() || element.isBF16() || element.isF16(); }

namespace {
/// The rows and columns of a sum over all dimensions but the last.
struct SumOfColumns {
  int64_t rows = 1, columns = 1;
};
} // namespace

static std::optional<SumOfColumns> matchLargeSumOfColumns(CallOp call) {
  constexpr size_t kDimensions = 1, kDtype = 3, kArguments = 4;
  if (call.getCallee() != "sum.dim_IntList" || call.getNumOperands() != 1 ||
      call.getNumResults() != 1 || call.getArgs().size() != kArguments ||
      !isa<UnitAttr>(call.getArgs()[kDtype]))
    return std::nullopt;
  auto dimensions = dyn_cast<DenseI64ArrayAttr>(call.getArgs()[kDimensions]);
  RankedTensorType source = getType(call.getOperand(0)), result = getType(call.getResult(0));
  if (!dimensions || !source || !result || source.getRank() < 2 || !isContiguous(source) ||
      !isContiguous(result) || source.getElementType() != result.getElementType() ||
      source.getNumElements() == 0 || !isFloat(source.getElementType()))
    return std::nullopt;
  SmallVector<int64_t> summed(dimensions.asArrayRef());
  for (int64_t &dimension : summed)
    dimension += dimension < 0 ? source.getRank() : 0;
  llvm::sort(summed);
  if (summed != llvm::to_vector(llvm::seq<int64_t>(0, source.getRank() - 1)))
    return std::nullopt;
  SumOfColumns sum{.columns = source.getShape().back()};
  sum.rows = source.getNumElements() / sum.columns;
  return chooseChunks(sum.rows, sum.columns) > 0 ? std::optional(sum) : std::nullopt;
}

bool fsdp::isLargeSumOfColumns(CallOp call) { return matchLargeSumOfColumns(call).has_value(); }

namespace {
/// native_layer_norm, _fused_rms_norm, or a backward of these.
struct Norm {
  bool isBackward = false, isRms = false; // an RMS norm has no mean and no bias
  SumOfColumns size;
  bool hasWeight = false, hasBias = false;
  Attribute epsilon; // of a forward
};
} // namespace

/// Results that a backward's mask leaves out do not have a tensor type.
static std::optional<Norm> matchNorm(CallOp call) {
  Norm norm;
  const StringRef callee = call.getCallee();
  norm.isRms = callee.starts_with("_fused_rms_norm");
  norm.isBackward = callee.ends_with("_backward.default");
  if (callee != "native_layer_norm.default" && callee != "native_layer_norm_backward.default" &&
      callee != "_fused_rms_norm.default" && callee != "_fused_rms_norm_backward.default")
    return std::nullopt;
  // Argument positions in the schemas.
  const size_t shape = norm.isBackward ? 2 : 1;
  const size_t weight = norm.isBackward ? (norm.isRms ? 4 : 5) : 2, bias = weight + !norm.isRms;
  ArrayAttr arguments = call.getArgs();
  if (arguments.size() != bias + 2 || call.getNumResults() != (norm.isRms ? 2 : 3))
    return std::nullopt;
  if (!norm.isBackward)
    norm.epsilon = dyn_cast<FloatAttr>(arguments[bias + 1]);
  norm.hasWeight = isa<aten::OperandAttr>(arguments[weight]);
  norm.hasBias = !norm.isRms && isa<aten::OperandAttr>(arguments[bias]);
  auto normalized = dyn_cast<DenseI64ArrayAttr>(arguments[shape]);
  RankedTensorType type = getType(call.getOperand(0));
  if (!normalized || normalized.size() != 1 || !type || type.getRank() < 2 ||
      type.getShape().back() < 2 || type.getNumElements() == 0 ||
      normalized[0] != type.getShape().back() || (norm.hasBias && !norm.hasWeight) ||
      (!norm.isBackward && !norm.epsilon))
    return std::nullopt;
  for (Value value : call.getOperands())
    if (!getType(value) || !isFloat(getType(value).getElementType()) ||
        !isContiguous(getType(value)))
      return std::nullopt;
  norm.size = {.rows = type.getNumElements() / type.getShape().back(),
               .columns = type.getShape().back()};
  const bool hasSums = norm.isBackward && chooseChunks(norm.size.rows, norm.size.columns) > 0;
  for (auto [i, result] : llvm::enumerate(call.getResults())) {
    RankedTensorType own = getType(result);
    if (norm.isBackward && i > 0 && !own)
      continue;
    if (!own || !isFloat(own.getElementType()) || !isContiguous(own) ||
        (norm.isBackward && i > 0 && !hasSums))
      return std::nullopt;
  }
  return norm;
}

bool fsdp::isNorm(CallOp call) { return matchNorm(call).has_value(); }

namespace {
/// Adds parts in sequence.
class Splitter {
public:
  explicit Splitter(CallOp call) : call(call), builder(call.getContext()) {
    numValues = call.getNumOperands();
  }
  SplitCall splitLoss();
  SplitCall splitSum();
  SplitCall splitColumns(const SumOfColumns &sum);
  SplitCall splitNorm(const Norm &norm);
  SplitCall splitNormBackward(const Norm &norm);

private:
  /// Returns the first result. `arguments` has null at the positions of operands.
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
  Attribute integers(ArrayRef<int64_t> values) { return builder.getDenseI64ArrayAttr(values); }
  /// The type with one element per row.
  RankedTensorType ofRows(RankedTensorType type) {
    SmallVector<int64_t> shape(type.getShape());
    shape.back() = 1;
    return RankedTensorType::get(shape, type.getElementType());
  }
  unsigned addCast(unsigned value, RankedTensorType type, Type element);
  unsigned addSumOfColumns(unsigned value, Type element, const SumOfColumns &sum,
                           RankedTensorType type);
  unsigned addMean(unsigned value, RankedTensorType type) {
    return add("mean.dim", value,
               {nullptr, integers(-1), builder.getBoolAttr(true), builder.getUnitAttr()},
               ofRows(type));
  }
  /// Adds an add, sub or mul.
  unsigned addOf(StringRef callee, unsigned a, unsigned b, RankedTensorType type) {
    SmallVector<Attribute> arguments{nullptr, nullptr};
    if (callee != "mul.Tensor")
      arguments.push_back(integer(1));
    return add(callee, {a, b}, arguments, type);
  }
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
    ignored = std::numeric_limits<int64_t>::min(); // invalid targets must not become ignored ones
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

/// The sum of each column of a value of dtype `element`, as a result of `type`. The last call is a
/// view: a cast would be taken for one of the gradient's (GradientRounding.h).
unsigned Splitter::addSumOfColumns(unsigned value, Type element, const SumOfColumns &sum,
                                   RankedTensorType type) {
  const int64_t chunks = chooseChunks(sum.rows, sum.columns);
  Type f32 = builder.getF32Type();
  const SmallVector<int64_t> cut{chunks, sum.rows / chunks, sum.columns};
  auto addSum = [&](int64_t dimension, ArrayRef<int64_t> shape) { // must not be split itself
    value = add("sum.dim_IntList", value,
                {nullptr, integers(dimension), builder.getBoolAttr(false), TypeAttr::get(f32)},
                RankedTensorType::get(shape, f32));
  };
  value = add("view.default", value, {nullptr, integers(cut)}, RankedTensorType::get(cut, element));
  addSum(1, {chunks, sum.columns});
  addSum(0, sum.columns);
  value = addCast(value, RankedTensorType::get(sum.columns, f32), type.getElementType());
  return add("view.default", value, {nullptr, integers(type.getShape())}, type);
}

/// Returns the value itself if it has this dtype already.
unsigned Splitter::addCast(unsigned value, RankedTensorType type, Type element) {
  if (type.getElementType() == element)
    return value;
  const Attribute none = builder.getUnitAttr();
  return add("_to_copy.default", value,
             {nullptr, TypeAttr::get(element), none, none, none, builder.getBoolAttr(false), none},
             type.clone(element));
}

SplitCall Splitter::splitColumns(const SumOfColumns &sum) {
  RankedTensorType type = getType(call.getResult(0));
  made.results = {addSumOfColumns(0, type.getElementType(), sum, type)};
  return std::move(made);
}

SplitCall Splitter::splitNorm(const Norm &norm) {
  constexpr unsigned kInput = 0, kWeight = 1, kBias = 2;
  RankedTensorType type = getType(call.getOperand(kInput));
  const RankedTensorType whole = type.clone(builder.getF32Type());
  SmallVector<unsigned> ofRow;
  unsigned centered = addCast(kInput, type, builder.getF32Type());
  if (!norm.isRms) {
    ofRow.push_back(addMean(centered, whole));
    centered = addOf("sub.Tensor", centered, ofRow.back(), whole);
  }
  unsigned variance = addMean(addOf("mul.Tensor", centered, centered, whole), whole);
  variance = add("add.Scalar", variance, {nullptr, norm.epsilon, integer(1)}, ofRows(whole));
  ofRow.push_back(add("rsqrt.default", variance, {nullptr}, ofRows(whole)));
  unsigned result = addOf("mul.Tensor", centered, ofRow.back(), whole);
  if (norm.hasWeight)
    result = addOf("mul.Tensor", result, kWeight, whole);
  if (norm.hasBias)
    result = addOf("add.Tensor", result, kBias, whole);
  auto round = [&](unsigned value, RankedTensorType from) {
    Value rounded = call.getResult(made.results.size());
    made.results.push_back(addCast(value, from, getType(rounded).getElementType()));
  };
  round(result, whole);
  for (unsigned value : ofRow)
    round(value, ofRows(whole));
  return std::move(made);
}

SplitCall Splitter::splitNormBackward(const Norm &norm) {
  constexpr unsigned kGradient = 0, kInput = 1, kMean = 2; // the mean only of a layer norm
  const unsigned rstd = norm.isRms ? 2 : 3, weight = rstd + 1;
  Type f32 = builder.getF32Type();
  RankedTensorType type = getType(call.getOperand(kInput));
  const RankedTensorType whole = type.clone(f32);
  unsigned gradient = addCast(kGradient, getType(call.getOperand(kGradient)), f32);
  unsigned normalized = addCast(kInput, type, f32);
  if (!norm.isRms)
    normalized = addOf("sub.Tensor", normalized, kMean, whole);
  normalized = addOf("mul.Tensor", normalized, rstd, whole);
  unsigned scaled = norm.hasWeight ? addOf("mul.Tensor", gradient, weight, whole) : gradient;
  unsigned share = addMean(addOf("mul.Tensor", scaled, normalized, whole), whole);
  unsigned result = scaled;
  if (!norm.isRms)
    result = addOf("sub.Tensor", result, addMean(scaled, whole), whole);
  result = addOf("sub.Tensor", result, addOf("mul.Tensor", normalized, share, whole), whole);
  result = addOf("mul.Tensor", result, rstd, whole);
  result = addCast(result, whole, getType(call.getResult(0)).getElementType());
  made.results.assign(call.getNumResults(), result);
  auto addGradient = [&](unsigned i, unsigned value) {
    if (RankedTensorType own = getType(call.getResult(i)))
      made.results[i] = addSumOfColumns(value, f32, norm.size, own);
  };
  if (getType(call.getResult(1)))
    addGradient(1, addOf("mul.Tensor", gradient, normalized, whole));
  if (!norm.isRms)
    addGradient(2, gradient);
  return std::move(made);
}

/// True for a reduction of the last of several dimensions that drops it.
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
  if (std::optional<SumOfColumns> sum = matchLargeSumOfColumns(call))
    return Splitter(call).splitColumns(*sum);
  if (std::optional<Norm> norm = matchNorm(call))
    return norm->isBackward ? Splitter(call).splitNormBackward(*norm)
                            : Splitter(call).splitNorm(*norm);
  return std::nullopt;
}
