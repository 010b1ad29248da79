//===- FsdpHostCopies.cpp - Copies to and from the host -------------------===//

#include "Handles.h"
#include "SymbolChecks.h"

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
// Gradients on the host
//===----------------------------------------------------------------------===//

void StoreGradientStartOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getHandle(), "t");
}
StoreGradientWaitOp StoreGradientStartOp::getWait() {
  return findUser<StoreGradientWaitOp>(getHandle());
}
LogicalResult StoreGradientWaitOp::verify() {
  if (failed(checkHandle<StoreGradientStartOp>(*this, getHandle())))
    return failure();
  ShardType shard = getStart().getGradient().getType();
  return checkYields(*this, getStored().getType(),
                     HostShardType::get(getContext(), shard.getGroup(), shard.getElementType()),
                     getStart());
}
StoreGradientStartOp StoreGradientWaitOp::getStart() {
  return cast<StoreGradientStartOp>(getHandle().getDefiningOp());
}
void StoreGradientWaitOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getStored(), "s");
}

void FetchGradientStartOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getHandle(), "h");
}
LogicalResult FetchGradientWaitOp::verify() {
  if (failed(checkHandle<FetchGradientStartOp>(*this, getHandle())))
    return failure();
  HostShardType stored = getStart().getStored().getType();
  return checkYields(*this, getResult().getType(),
                     ShardType::get(getContext(), stored.getGroup(), stored.getElementType()),
                     getStart());
}
FetchGradientStartOp FetchGradientWaitOp::getStart() {
  return cast<FetchGradientStartOp>(getHandle().getDefiningOp());
}
void FetchGradientWaitOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getResult(), "d");
}
