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

namespace {
/// Adds parts one after another.
class Splitter {
public:
  explicit Splitter(CallOp call) : call(call), builder(call.getContext()) {
    numValues = call.getNumOperands();
  }
  SplitCall splitLoss();
  SplitCall splitSum();

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
  return std::nullopt;
}
