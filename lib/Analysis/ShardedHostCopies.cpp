//===- ShardedHostCopies.cpp - Host copies of a sharded step --------------===//

#include "ShardedStep.h"

using namespace mlir;
using namespace fsdp;

/// Initially state copies are adjacent to their updates, and copies of activations enclose the
/// interval in which the activations are on the host.
void ShardedStep::addHostCopies() {
  std::vector<std::optional<StateCopy>> copyOf(memory.groups.getGroups().size());
  for (StateCopy &copy : collectStateCopies(memory.getBody()))
    copyOf[indexOf(copy.update.getTargetAttr())] = copy;
  for (const PlacedReader &reader : readers)
    if (auto update = dyn_cast<UpdateOp>(reader.op))
      if (std::optional<StateCopy> &copy = copyOf[indexOf(update.getTargetAttr())]) {
        uint32_t operation = operationOfReader.lookup(update);
        if (!copyBounds.empty())
          copyBounds.back().latestStore = operation;
        copyBounds.push_back({result.hostCopies.empty() ? 0 : result.hostCopies.back().fetchWaited,
                              static_cast<uint32_t>(result.operations.size())});
        result.hostCopies.push_back({.fetch = copy->fetch,
                                     .fetchWait = copy->fetchWait,
                                     .store = copy->store,
                                     .storeWait = copy->storeWait,
                                     .update = update,
                                     .fetchLaunch = operation,
                                     .fetchWaited = operation,
                                     .storeLaunch = operation + 1,
                                     .storeWaited = operation + 1});
      }
  for (auto fetch : memory.getBody().getOps<FetchStartOp>())
    addValueCopy(fetch);
  addHostRanges(result, memory);
}

void ShardedStep::addValueCopy(FetchStartOp fetch) {
  FetchWaitOp wait = fetch.getWait();
  auto storeWait = cast<StoreWaitOp>(fetch.getStored().getDefiningOp());
  StoreStartOp store = storeWait.getStart();
  const int64_t stored = memory.storage.lookup(store.getValue());
  const int64_t fetched = memory.storage.lookup(fetch.getHandle());
  // After the call that precedes `op`, before the call that follows it.
  auto behind = [&](Operation *op) {
    const uint32_t numCalls = callsBefore.lookup(op);
    return numCalls == 0 ? 0 : toOperation(numCalls - 1) + 1;
  };
  auto before = [&](Operation *op) {
    const uint32_t numCalls = callsBefore.lookup(op);
    return numCalls < calls.size() ? toOperation(numCalls)
                                   : static_cast<uint32_t>(result.operations.size());
  };
  // A value that is stored twice has one range. Live ranges of other values have rules of their
  // own.
  std::optional<size_t> storedRange;
  if (stored != StepStorage::kNone &&
      memory.storage.getStorages()[stored].category == BufferCategory::Activation)
    storedRange = memory.ranges.lookup(stored);
  if (storedRange && !storedRanges.insert(*storedRange).second)
    storedRange.reset();
  copyBounds.push_back({before(fetch), behind(storeWait)});
  result.hostCopies.push_back({.fetch = fetch,
                               .fetchWait = wait,
                               .store = store,
                               .storeWait = storeWait,
                               .fetchLaunch = before(wait),
                               .fetchWaited = before(wait),
                               .storeLaunch = behind(store),
                               .storeWaited = behind(store),
                               .storedRange = storedRange,
                               .madeAt = storedRange ? toOperation(firstCall[stored]) : 0,
                               .lastStoredReader = storedRange ? toOperation(lastCall[stored]) : 0,
                               .lastReader = toOperation(lastCall[fetched])});
}
