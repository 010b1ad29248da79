//===- BufferUse.cpp - What operations do with bytes ----------------------===//

#include "fsdp/IR/BufferUse.h"

#include "fsdp/IR/Fsdp.h"

using namespace mlir;
using namespace fsdp;
using Category = std::optional<BufferCategory>;

#include "fsdp/IR/BufferUse.cpp.inc"
#include "fsdp/IR/BufferUseEnums.cpp.inc"

/// A tensor of which something is stored.
static Category ofTensor(OpResult result, BufferCategory category) {
  return isa<RankedTensorType>(result.getType()) ? Category(category) : std::nullopt;
}

//===----------------------------------------------------------------------===//
// Computation
//===----------------------------------------------------------------------===//

Category aten::CallOp::getMadeCategory(OpResult result) {
  return isView() ? std::nullopt : ofTensor(result, BufferCategory::Activation);
}
Value aten::CallOp::getAlias(OpResult) {
  return isView() && !getOperands().empty() ? getOperand(0) : Value();
}
Category LaunchOp::getMadeCategory(OpResult result) {
  return ofTensor(result, BufferCategory::Activation);
}
Category aten::ConstantOp::getMadeCategory(OpResult) { return BufferCategory::Constant; }
Category InputOp::getMadeCategory(OpResult result) {
  return ofTensor(result, BufferCategory::Input);
}
FlatSymbolRefAttr WriteOp::getOverwritten() { return getBufferAttr(); }
FlatSymbolRefAttr UpdateOp::getOverwritten() { return getTargetAttr(); }

//===----------------------------------------------------------------------===//
// Shards and collectives
//===----------------------------------------------------------------------===//

Category PackOp::getMadeCategory(OpResult) { return BufferCategory::Gradient; }
OperandRange PackOp::getPacked() { return getGrads(); }
Category ChunkOp::getMadeCategory(OpResult) { return BufferCategory::Chunk; }
Category EncodeOp::getMadeCategory(OpResult) { return BufferCategory::EncodedShard; }

Category CastOp::getMadeCategory(OpResult) { return BufferCategory::ReducedShard; }
Value AllReduceHookOp::getAlias(OpResult) { return getSource(); }
Value AccumulateOp::getAlias(OpResult) { return getSum(); }

Category AllGatherStartOp::getMadeCategory(OpResult) { return BufferCategory::Gathered; }
Category AllGatherWaitOp::getMadeCategory(OpResult) { return BufferCategory::Gathered; }
Value AllGatherWaitOp::getAlias(OpResult) { return getHandle(); }

Category ReduceScatterStartOp::getMadeCategory(OpResult) { return BufferCategory::ReducedShard; }
OperandRange ReduceScatterStartOp::getPacked() { return getGrads(); }
Value ReduceScatterWaitOp::getAlias(OpResult) { return getHandle(); }

Value AllReduceStartOp::getAlias(OpResult) { return getSource(); }
Value AllReduceWaitOp::getAlias(OpResult) { return getHandle(); }

Category PartialNormOp::getMadeCategory(OpResult) { return BufferCategory::Activation; }

//===----------------------------------------------------------------------===//
// Optimizer state on the host
//===----------------------------------------------------------------------===//

Category FetchStateStartOp::getMadeCategory(OpResult) { return BufferCategory::OptimizerState; }
Value FetchStateWaitOp::getAlias(OpResult) { return getHandle(); }
Value StoreStateStartOp::getAlias(OpResult) { return getState(); }

//===----------------------------------------------------------------------===//
// Gradients on the host
//===----------------------------------------------------------------------===//

Category FetchGradientStartOp::getMadeCategory(OpResult) { return BufferCategory::ReducedShard; }
Value FetchGradientWaitOp::getAlias(OpResult) { return getHandle(); }
