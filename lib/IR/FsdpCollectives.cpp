//===- FsdpCollectives.cpp - What starts and is waited for ----------------===//

#include "SymbolChecks.h"

using namespace mlir;
using namespace fsdp;

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

/// Checks one value per parameter of the group, of the parameter's type, or with `dtype` for its
/// elements if that is not null.
static LogicalResult checkGroupTypes(Operation *op, GroupOp group, TypeRange types, TypeAttr dtype,
                                     SymbolTableCollection &symbols) {
  FlatSymbolRefAttr groupName = FlatSymbolRefAttr::get(group.getSymNameAttr());
  if (group.getParams().size() != types.size()) {
    InFlightDiagnostic diag = op->emitOpError("has ")
                              << types.size() << " values for group " << groupName << ", expected "
                              << group.getParams().size();
    diag.attachNote(group.getLoc()) << "declared here";
    return diag;
  }
  for (auto [name, type] : llvm::zip_equal(group.getParams(), types)) {
    auto symbol = cast<FlatSymbolRefAttr>(name);
    FailureOr<ParamOp> param = resolve<ParamOp>(group, symbol, symbols, "parameter");
    if (failed(param))
      return failure();
    auto expected = cast<RankedTensorType>(param->getType());
    if (dtype)
      expected = expected.clone(dtype.getValue());
    if (failed(checkType(op, cast<RankedTensorType>(type).cloneWithEncoding({}), expected,
                         "parameter", symbol, dtype ? group.getOperation() : *param)))
      return failure();
  }
  return success();
}

/// Checks that `handle` was made by a StartT.
template <typename StartT> static LogicalResult checkHandle(Operation *op, Value handle) {
  Operation *start = handle.getDefiningOp();
  if (isa_and_nonnull<StartT>(start))
    return success();
  InFlightDiagnostic diag = op->emitOpError("takes the handle of a ") << StartT::getOperationName();
  if (start)
    diag.attachNote(start->getLoc()) << "but it comes from " << start->getName();
  return diag;
}

LogicalResult AllGatherStartOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return resolve<GroupOp>(*this, getGroupAttr(), symbols, "group");
}
StringRef AllGatherStartOp::getCollectiveKind() { return "all_gather"; }
void AllGatherStartOp::getAsmResultNames(OpAsmSetValueNameFn setName) { setName(getHandle(), "u"); }

LogicalResult AllGatherWaitOp::verify() {
  return checkHandle<AllGatherStartOp>(*this, getHandle());
}

LogicalResult AllGatherWaitOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto start = getHandle().getDefiningOp<AllGatherStartOp>();
  FailureOr<GroupOp> group = resolve<GroupOp>(*this, start.getGroupAttr(), symbols, "group");
  if (failed(group))
    return failure();
  return checkGroupTypes(*this, *group, getResultTypes(), group->getGatherDtypeAttr(), symbols);
}

void AllGatherWaitOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  if (getNumResults() != 0)
    setName(getResult(0), "w");
}

LogicalResult ReleaseOp::verify() { return checkHandle<AllGatherStartOp>(*this, getHandle()); }

LogicalResult ReduceScatterStartOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<GroupOp> group = resolve<GroupOp>(*this, getGroupAttr(), symbols, "group");
  if (failed(group))
    return failure();
  return checkGroupTypes(*this, *group, getGrads().getTypes(), group->getReduceDtypeAttr(),
                         symbols);
}
StringRef ReduceScatterStartOp::getCollectiveKind() { return "reduce_scatter"; }
void ReduceScatterStartOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getHandle(), "r");
}

LogicalResult ReduceScatterWaitOp::verify() {
  return checkHandle<ReduceScatterStartOp>(*this, getHandle());
}

LogicalResult AllReduceStartOp::verify() {
  if (failed(checkHandle<ReduceScatterStartOp>(*this, getReduction())))
    return failure();
  auto reduction = getReduction().getDefiningOp<ReduceScatterStartOp>();
  if (reduction.getGroupAttr() == getGroupAttr())
    return success();
  InFlightDiagnostic diag = emitOpError("of ")
                            << getGroupAttr() << " goes on with the reduction of "
                            << reduction.getGroupAttr();
  diag.attachNote(reduction.getLoc()) << "reduced here";
  return diag;
}

LogicalResult AllReduceStartOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return resolve<GroupOp>(*this, getGroupAttr(), symbols, "group");
}
StringRef AllReduceStartOp::getCollectiveKind() { return "all_reduce"; }
void AllReduceStartOp::getAsmResultNames(OpAsmSetValueNameFn setName) { setName(getHandle(), "a"); }

LogicalResult AllReduceWaitOp::verify() {
  return checkHandle<AllReduceStartOp>(*this, getHandle());
}

//===----------------------------------------------------------------------===//
// Clipping
//===----------------------------------------------------------------------===//

void SquareSumOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getResult(), "squares");
}

LogicalResult SquareSumAllReduceStartOp::verify() {
  if (getSquares().getDefiningOp<SquareSumOp>())
    return success();
  return emitOpError("adds up what is not the result of a ") << SquareSumOp::getOperationName();
}
void SquareSumAllReduceStartOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getHandle(), "n");
}

LogicalResult SquareSumAllReduceWaitOp::verify() {
  return checkHandle<SquareSumAllReduceStartOp>(*this, getHandle());
}
void SquareSumAllReduceWaitOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getTotal(), "total");
}

void ClipFactorOp::getAsmResultNames(OpAsmSetValueNameFn setName) { setName(getFactor(), "clip"); }

//===----------------------------------------------------------------------===//
// Optimizer state on the host
//===----------------------------------------------------------------------===//

LogicalResult FetchStateStartOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return resolve<GroupOp>(*this, getGroupAttr(), symbols, "group");
}
void FetchStateStartOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getHandle(), "f");
}
LogicalResult FetchStateWaitOp::verify() {
  return checkHandle<FetchStateStartOp>(*this, getHandle());
}

LogicalResult StoreStateStartOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return resolve<GroupOp>(*this, getGroupAttr(), symbols, "group");
}
void StoreStateStartOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getHandle(), "s");
}
LogicalResult StoreStateWaitOp::verify() {
  return checkHandle<StoreStateStartOp>(*this, getHandle());
}
