//===- ModelCollectives.cpp - Collectives of the model's own code ---------===//

#include "fsdp/IR/ModelCollectives.h"

#include "fsdp/IR/TensorLayout.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace fsdp;
using aten::CallOp;

static std::optional<ModelCollectiveKind> findKind(CallOp call) {
  if (!call.getCallee().starts_with("fsdpc::")) // as of most calls
    return std::nullopt;
  return llvm::StringSwitch<std::optional<ModelCollectiveKind>>(call.getCallee())
      .Case("fsdpc::all_reduce.default", ModelCollectiveKind::AllReduce)
      .Case("fsdpc::all_gather.default", ModelCollectiveKind::AllGather)
      .Case("fsdpc::reduce_scatter.default", ModelCollectiveKind::ReduceScatter)
      .Default(std::nullopt);
}

static std::optional<ReduceOp> findReduceOp(Attribute argument) {
  auto text = dyn_cast<StringAttr>(argument);
  return llvm::StringSwitch<std::optional<ReduceOp>>(text ? text.getValue() : "")
      .Case("sum", ReduceOp::Sum)
      .Case("avg", ReduceOp::Average)
      .Case("max", ReduceOp::Max)
      .Default(std::nullopt);
}

bool fsdp::isOwnPart(CallOp call) { return call.getCallee() == "fsdpc::own_part.default"; }

static RankedTensorType getOperandType(CallOp call) {
  return cast<RankedTensorType>(call.getOperand(0).getType());
}

std::optional<ModelCollective> fsdp::getModelCollective(CallOp call) {
  std::optional<ModelCollectiveKind> kind = findKind(call);
  if (!kind)
    return std::nullopt;
  ModelCollective collective{*kind};
  if (*kind == ModelCollectiveKind::AllGather)
    collective.ranks = cast<RankedTensorType>(call.getResult(0).getType()).getDimSize(0);
  else
    collective.reduceOp = *findReduceOp(call.getArgs()[1]);
  if (*kind == ModelCollectiveKind::ReduceScatter)
    collective.ranks = getOperandType(call).getDimSize(0);
  return collective;
}

LogicalResult fsdp::verifyModelCollective(CallOp call) {
  std::optional<ModelCollectiveKind> kind = findKind(call);
  if (!kind && !isOwnPart(call))
    return success();
  auto fail = [&](const Twine &problem) -> LogicalResult {
    return call.emitOpError("'") << call.getCallee() << "' " << problem;
  };
  const size_t numArgs = isOwnPart(call) ? 1 : 2;
  if (call.getArgs().size() != numArgs || call.getNumOperands() != 1 || call.getNumResults() != 1 ||
      !isa<RankedTensorType>(call.getResult(0).getType()))
    return fail("takes one tensor, " + Twine(numArgs) + " arguments in all, and yields a tensor");
  RankedTensorType operand = getOperandType(call);
  auto result = cast<RankedTensorType>(call.getResult(0).getType());
  if (!isContiguous(operand) || !isContiguous(result))
    return fail("takes and yields contiguous tensors");
  if (kind == ModelCollectiveKind::AllGather) {
    auto ranks = dyn_cast<IntegerAttr>(call.getArgs()[1]);
    if (!ranks || ranks.getInt() < 1)
      return fail("takes a number of ranks, at least 1");
  } else if (kind) {
    std::optional<ReduceOp> op = findReduceOp(call.getArgs()[1]);
    if (!op || (*op == ReduceOp::Max && *kind == ModelCollectiveKind::ReduceScatter))
      return fail("takes \"sum\", \"avg\" or, if it is an all_reduce, \"max\"");
  }
  SmallVector<int64_t> shape(operand.getShape());
  if (kind == ModelCollectiveKind::AllGather) {
    shape.insert(shape.begin(), cast<IntegerAttr>(call.getArgs()[1]).getInt());
  } else if (kind != ModelCollectiveKind::AllReduce) {
    if (shape.empty())
      return fail("takes a tensor with a row for each rank, not a single number");
    shape.erase(shape.begin());
  }
  auto expected = RankedTensorType::get(shape, operand.getElementType());
  if (result.getShape() != expected.getShape() ||
      result.getElementType() != expected.getElementType())
    return call.emitOpError("'") << call.getCallee() << "' yields " << result << ", expected "
                                 << expected;
  return success();
}

LogicalResult fsdp::checkAssumedRanks(CallOp call, int64_t ranks, StringRef label) {
  std::optional<ModelCollective> collective = getModelCollective(call);
  int64_t assumed = collective ? collective->ranks : 0;
  if (isOwnPart(call))
    assumed = getOperandType(call).getDimSize(0);
  if (assumed == 0 || assumed == ranks)
    return success();
  return call.emitError(label) << ": '" << call.getCallee() << "' in module '" << call.getModule()
                               << "' is of " << assumed << " ranks, the mesh has " << ranks;
}
