//===- HostPlaces.cpp - Buffers in the host's arena -----------------------===//

#include "fsdp/Analysis/HostPlaces.h"

#include "fsdp/IR/TensorLayout.h"
#include "fsdp/Plan/ArenaPlanner.h"

using namespace mlir;
using namespace fsdp;

int64_t fsdp::getStoredBytes(StoreStartOp store, const GroupTable &groups) {
  if (auto shard = dyn_cast<ShardType>(store.getValue().getType()))
    return shard.getRanks() != 0 ? groups.lookup(shard).getChunkBytes()
                                 : groups.lookup(shard).getGradientBytes(shard.getElementType());
  return getStorageBytes(cast<RankedTensorType>(store.getValue().getType()));
}

SmallVector<StoredValue> fsdp::collectStoredValues(Block &body, const GroupTable &groups) {
  SmallVector<StoredValue> stored;
  DenseMap<Value, size_t> indexOf; // by handles and stored values
  for (auto [position, op] : llvm::enumerate(body)) {
    auto at = static_cast<int64_t>(position);
    auto inStep = dyn_cast<StepOpInterface>(op);
    if (!inStep || op.getNumOperands() == 0 || inStep.getRole() == StepRole::Reshard)
      continue;
    auto known = indexOf.find(op.getOperand(0));
    size_t index = stored.size();
    if (auto store = dyn_cast<StoreStartOp>(op))
      stored.push_back({&op, plan::alignToArena(getStoredBytes(store, groups)), at, at});
    else if (known != indexOf.end())
      index = known->second;
    else
      continue;
    stored[index].last = at;
    if (inStep.getRole() != StepRole::FetchWait && inStep.getRole() != StepRole::CollectiveWait)
      for (Value result : op.getResults())
        indexOf[result] = index;
  }
  return stored;
}

namespace {

/// Collects the buffers on the host, then looks for two that overlap. State between steps is live
/// throughout the step.
class Checker {
public:
  explicit Checker(ModuleOp module) {
    auto arena = module->getAttrOfType<IntegerAttr>(FsdpDialect::getHostArenaAttrName());
    arenaBytes = arena ? arena.getInt() : 0;
  }
  LogicalResult place(Operation *op, std::string name, int64_t begin, plan::BufferRange range);
  LogicalResult checkOverlap();

private:
  std::string describe(size_t index) const {
    return names[index] + " at bytes [" + std::to_string(offsets[index]) + ", " +
           std::to_string(offsets[index] + ranges[index].sizeBytes) + ") of the host's arena";
  }

  int64_t arenaBytes;
  SmallVector<Operation *> ops;
  SmallVector<std::string> names;
  std::vector<plan::BufferRange> ranges;
  std::vector<int64_t> offsets;
};

} // namespace

LogicalResult Checker::place(Operation *op, std::string name, int64_t begin,
                             plan::BufferRange range) {
  ops.push_back(op);
  names.push_back(std::move(name));
  ranges.push_back(range);
  offsets.push_back(begin);
  if (begin >= 0 && begin + range.sizeBytes <= arenaBytes &&
      begin % plan::kArenaAlignmentBytes == 0)
    return success();
  return op->emitOpError("P5: ") << describe(ops.size() - 1) << " of " << arenaBytes
                                 << " bytes, expected within it, at a multiple of "
                                 << plan::kArenaAlignmentBytes;
}

LogicalResult Checker::checkOverlap() {
  plan::Overlap overlap = plan::findOverlap(ranges, offsets);
  if (overlap.first < 0)
    return success();
  InFlightDiagnostic diag = ops[overlap.second]->emitOpError("P5: ")
                            << describe(overlap.second) << " overlaps " << names[overlap.first];
  diag.attachNote(ops[overlap.first]->getLoc()) << "which is declared here";
  return diag;
}

LogicalResult fsdp::checkHostPlaces(ModuleOp module, Block &body, const GroupTable &groups) {
  Checker checker(module);
  const auto end = static_cast<int64_t>(std::distance(body.begin(), body.end()));
  for (const GroupInfo &group : groups.getGroups()) {
    GroupOp op = group.op;
    // Both have the same length: explainPlaces() has checked it.
    for (auto [begin, part] : llvm::zip(group.getHostPlaces(), group.getHostParts()))
      if (failed(checker.place(op, (part.name + " of @" + op.getSymName()).str(), begin,
                               {part.bytes, 0, end})))
        return failure();
  }
  for (const StoredValue &stored : collectStoredValues(body, groups)) {
    std::optional<int64_t> place = getPlace(stored.store, 0, 1);
    if (!place)
      return stored.store->emitOpError("P5: has no place in the host's arena");
    if (failed(checker.place(stored.store, "the " + describe(stored.store), *place,
                             {stored.bytes, stored.first, stored.last})))
      return failure();
  }
  return checker.checkOverlap();
}
