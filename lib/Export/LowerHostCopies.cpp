//===- LowerHostCopies.cpp - Copies between host and device -------------===//

#include "Lowering.h"
#include "fsdp/Analysis/HostPlaces.h"

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
  const bool isFetch = kind == FSDP_FETCH_STATE_START;
  for (const HostPart &part : group.getHostParts())
    if (!isFetch || !part.isCopy())
      entry.bytes += part.fetchedBytes;
  entry.count = group.updated.shardElements;
  entry.location = builder.addLocation(handle.getDefiningOp()->getLoc());
}

LogicalResult Lowering::lower(FetchStateStartOp fetch) {
  const GroupInfo &info = groups.lookup(fetch.getGroupAttr());
  fsdp_group &group = builder.tables.groups[info.index];
  ArrayRef<int64_t> places = fetch.getOffsets().value_or(ArrayRef<int64_t>());
  std::vector<HostPart> parts = info.getHostParts();
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
// Gradients, activations and chunks
//===----------------------------------------------------------------------===//

/// The backward stores gradients, the forward activations; a chunk is stored where it is made.
static fsdp_phase getStorePhase(StoreStartOp store) {
  if (auto chunk = store.getValue().getDefiningOp<ChunkOp>())
    return getChunkPhase(chunk);
  return isa<ShardType>(store.getValue().getType()) ? FSDP_BACKWARD : FSDP_FORWARD;
}

fsdp_entry &Lowering::addHostCopy(fsdp_entry_kind kind, StoreStartOp store, Operation *start) {
  const bool isStore = kind == FSDP_STORE_START;
  fsdp_entry &entry = builder.addEntry(kind, isStore ? getStorePhase(store) : FSDP_BACKWARD);
  entry.stream = isStore ? FSDP_DEVICE_TO_HOST : FSDP_HOST_TO_DEVICE;
  entry.handle = handleOf[start->getResult(0)] = builder.tables.header.num_handles++;
  entry.bytes = getStoredBytes(store, groups);
  if (FlatSymbolRefAttr group = getGroupOf(start))
    entry.module = builder.addString(getModuleName(groups.lookup(group)));
  else if (aten::ScopeAttr scope = getScopeOf(store.getValue()))
    entry.module = builder.addString(scope.getModule());
  entry.location = builder.addLocation(start->getLoc());
  return entry;
}

LogicalResult Lowering::lower(StoreStartOp store) {
  FailureOr<int64_t> offset = getOffset(store, store.getOffset());
  if (failed(offset))
    return failure();
  fsdp_entry &entry = addHostCopy(FSDP_STORE_START, store, store);
  entry.source = baseOf.lookup(store.getValue());
  entry.destination = baseOf[store.getHandle()] = *offset;
  return success();
}

LogicalResult Lowering::lower(StoreWaitOp wait) {
  addWait(wait, getStorePhase(wait.getStart()));
  baseOf[wait.getStored()] = baseOf.lookup(wait.getHandle());
  return success();
}

LogicalResult Lowering::lower(FetchStartOp fetch) {
  FailureOr<int64_t> offset = getOffset(fetch, fetch.getOffset());
  if (failed(offset))
    return failure();
  fsdp_entry &entry = addHostCopy(
      FSDP_FETCH_START, cast<StoreWaitOp>(fetch.getStored().getDefiningOp()).getStart(), fetch);
  entry.source = baseOf.lookup(fetch.getStored());
  entry.destination = baseOf[fetch.getHandle()] = *offset;
  return success();
}

LogicalResult Lowering::lower(FetchWaitOp wait) {
  addWait(wait, FSDP_BACKWARD);
  if (isa<RankedTensorType>(wait.getResult().getType()))
    return define(wait.getResult(), baseOf.lookup(wait.getHandle()));
  baseOf[wait.getResult()] = baseOf.lookup(wait.getHandle());
  return success();
}
