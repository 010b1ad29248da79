//===- LowerStateCopies.cpp - State and gradients between host and device -===//

#include "Lowering.h"

using namespace mlir;
using namespace fsdp;

void Lowering::addStateCopy(fsdp_entry_kind kind, fsdp_stream stream, FlatSymbolRefAttr groupName,
                            Value handle) {
  const GroupInfo &group = groups.lookup(groupName);
  fsdp_entry &entry = builder.addEntry(kind, FSDP_BACKWARD);
  entry.stream = stream;
  entry.dtype = *getPlanDType(group.master.elementType);
  entry.target = group.index;
  entry.handle = handleOf[handle] = builder.tables.header.num_handles++;
  entry.bytes = group.states.shardBytes;
  entry.count = group.states.shardElements;
  entry.location = builder.addLocation(handle.getDefiningOp()->getLoc());
}

LogicalResult Lowering::lower(FetchStateStartOp fetch) {
  const GroupInfo &info = groups.lookup(fetch.getGroupAttr());
  fsdp_group &group = builder.tables.groups[info.index];
  ArrayRef<int64_t> places = fetch.getOffsets().value_or(ArrayRef<int64_t>());
  OptimizerOp optimizer = *module.getOps<OptimizerOp>().begin();
  std::vector<HostPart> parts = info.getHostParts(getNumOptimizerStates(optimizer));
  if (places.size() != parts.size())
    return fetch.emitOpError("of ")
           << fetch.getGroupAttr() << " has " << places.size() << " offsets in the arena for "
           << parts.size() << " parts on the host; run fsdp-plan-memory";
  for (auto [place, part] : llvm::zip_equal(places, parts))
    if (part.category == BufferCategory::OptimizerState)
      group.state[part.index - 1] = place;
    else
      (part.index == 0 ? group.shard : group.gather_shard) = place;
  if (!info.hasGatherCopy() && group.parameters_on_host)
    group.gather_shard = group.shard;
  addStateCopy(FSDP_FETCH_STATE_START, FSDP_HOST_TO_DEVICE, fetch.getGroupAttr(),
               fetch.getHandle());
  return success();
}

LogicalResult Lowering::lower(FetchStateWaitOp wait) {
  addWait(wait, FSDP_BACKWARD);
  return success();
}

LogicalResult Lowering::lower(StoreStateStartOp store) {
  addStateCopy(FSDP_STORE_STATE_START, FSDP_DEVICE_TO_HOST, store.getGroupAttr(),
               store.getHandle());
  return success();
}

LogicalResult Lowering::lower(StoreStateWaitOp wait) {
  addWait(wait, FSDP_BACKWARD);
  return success();
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

fsdp_entry &Lowering::addGradientCopy(fsdp_entry_kind kind, fsdp_stream stream,
                                      FlatSymbolRefAttr groupName, Type elementType, Value handle) {
  const GroupInfo &group = groups.lookup(groupName);
  fsdp_entry &entry = builder.addEntry(kind, FSDP_BACKWARD);
  entry.stream = stream;
  entry.dtype = *getPlanDType(elementType);
  entry.target = group.index;
  entry.handle = handleOf[handle] = builder.tables.header.num_handles++;
  entry.count = group.gradients.shardElements;
  entry.bytes = group.getGradientBytes(elementType);
  entry.location = builder.addLocation(handle.getDefiningOp()->getLoc());
  return entry;
}

LogicalResult Lowering::lower(StoreGradientStartOp store) {
  FailureOr<int64_t> offset = getOffset(store, store.getOffset());
  if (failed(offset))
    return failure();
  ShardType shard = store.getGradient().getType();
  fsdp_entry &entry = addGradientCopy(FSDP_STORE_GRADIENT_START, FSDP_DEVICE_TO_HOST,
                                      shard.getGroup(), shard.getElementType(), store.getHandle());
  entry.source = baseOf.lookup(store.getGradient());
  entry.destination = baseOf[store.getHandle()] = *offset;
  return success();
}

LogicalResult Lowering::lower(StoreGradientWaitOp wait) {
  addWait(wait, FSDP_BACKWARD);
  baseOf[wait.getStored()] = baseOf.lookup(wait.getHandle());
  return success();
}

LogicalResult Lowering::lower(FetchGradientStartOp fetch) {
  FailureOr<int64_t> offset = getOffset(fetch, fetch.getOffset());
  if (failed(offset))
    return failure();
  HostShardType stored = fetch.getStored().getType();
  fsdp_entry &entry =
      addGradientCopy(FSDP_FETCH_GRADIENT_START, FSDP_HOST_TO_DEVICE, stored.getGroup(),
                      stored.getElementType(), fetch.getHandle());
  entry.source = baseOf.lookup(fetch.getStored());
  entry.destination = baseOf[fetch.getHandle()] = *offset;
  return success();
}

LogicalResult Lowering::lower(FetchGradientWaitOp wait) {
  addWait(wait, FSDP_BACKWARD);
  baseOf[wait.getResult()] = baseOf.lookup(wait.getHandle());
  return success();
}
