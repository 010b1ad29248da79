//===- FsdpHostCopies.cpp - Copies to and from the host -------------------===//

#include "Handles.h"
#include "SymbolChecks.h"
#include "fsdp/IR/TensorLayout.h"

using namespace mlir;
using namespace fsdp;

//===----------------------------------------------------------------------===//
// Optimizer state on the host
//===----------------------------------------------------------------------===//

LogicalResult FetchStateStartOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return resolve<GroupOp>(*this, getGroupAttr(), symbols, "group");
}
void FetchStateStartOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getHandle(), "h");
}
LogicalResult FetchStateWaitOp::verify() {
  if (failed(checkHandle<FetchStateStartOp>(*this, getHandle())))
    return failure();
  FetchStateStartOp start = getStart();
  return checkYields(*this, getState().getType(),
                     StateType::get(getContext(), start.getGroupAttr()), start);
}
FetchStateStartOp FetchStateWaitOp::getStart() {
  return cast<FetchStateStartOp>(getHandle().getDefiningOp());
}
void FetchStateWaitOp::getAsmResultNames(OpAsmSetValueNameFn setName) { setName(getState(), "x"); }

void StoreStateStartOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getHandle(), "t");
}
StoreStateWaitOp StoreStateStartOp::getWait() { return findUser<StoreStateWaitOp>(getHandle()); }
LogicalResult StoreStateWaitOp::verify() {
  return checkHandle<StoreStateStartOp>(*this, getHandle());
}
StoreStateStartOp StoreStateWaitOp::getStart() {
  return cast<StoreStateStartOp>(getHandle().getDefiningOp());
}

//===----------------------------------------------------------------------===//
// Gradients, activations and chunks on the host
//===----------------------------------------------------------------------===//

/// A store copies elements only: the tensor has no gaps, and is not empty.
LogicalResult StoreStartOp::verify() {
  auto tensor = dyn_cast<RankedTensorType>(getValue().getType());
  if (!tensor)
    return success();
  const int64_t bytes = tensor.getNumElements() * getElementBytes(tensor.getElementType());
  if (bytes == 0)
    return emitOpError("stores ") << tensor << ", which has no bytes";
  if (bytes == getStorageBytes(tensor))
    return success();
  return emitOpError("stores ") << tensor << ", whose elements have " << bytes << " of "
                                << getStorageBytes(tensor)
                                << " bytes, expected a tensor without gaps";
}
void StoreStartOp::getAsmResultNames(OpAsmSetValueNameFn setName) { setName(getHandle(), "t"); }
StoreWaitOp StoreStartOp::getWait() { return findUser<StoreWaitOp>(getHandle()); }
LogicalResult StoreWaitOp::verify() {
  if (failed(checkHandle<StoreStartOp>(*this, getHandle())))
    return failure();
  StoreStartOp start = getStart();
  return checkYields(*this, getStored().getType(),
                     HostType::get(getContext(), start.getValue().getType()), start);
}
StoreStartOp StoreWaitOp::getStart() { return cast<StoreStartOp>(getHandle().getDefiningOp()); }
void StoreWaitOp::getAsmResultNames(OpAsmSetValueNameFn setName) { setName(getStored(), "s"); }

void FetchStartOp::getAsmResultNames(OpAsmSetValueNameFn setName) { setName(getHandle(), "h"); }
LogicalResult FetchStartOp::verify() {
  if (!getStored().getDefiningOp<StoreWaitOp>())
    return emitOpError("takes what no ") << StoreWaitOp::getOperationName() << " yields";
  if (auto shard = dyn_cast<ShardType>(getValueType()); shard && shard.getRanks() != 0)
    return emitOpError("takes a chunk, ")
           << shard << ", which only '" << AllGatherStartOp::getOperationName() << "' takes";
  return success();
}
FetchWaitOp FetchStartOp::getWait() { return findUser<FetchWaitOp>(getHandle()); }
Value FetchStartOp::getSource() {
  return cast<StoreWaitOp>(getStored().getDefiningOp()).getStart().getValue();
}
LogicalResult FetchWaitOp::verify() {
  if (failed(checkHandle<FetchStartOp>(*this, getHandle())))
    return failure();
  return checkYields(*this, getResult().getType(), getStart().getValueType(), getStart());
}
FetchStartOp FetchWaitOp::getStart() { return cast<FetchStartOp>(getHandle().getDefiningOp()); }
void FetchWaitOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getResult(), isa<ShardType>(getResult().getType()) ? "d" : "a");
}
