//===- LiveRanges.cpp - Live ranges of a step's buffers -------------------===//

#include "fsdp/Analysis/LiveRanges.h"

#include "fsdp/Analysis/GradientDivision.h"
#include "fsdp/Analysis/Requests.h"
#include "fsdp/Analysis/Step.h"
#include "fsdp/IR/TensorLayout.h"

using namespace mlir;
using namespace fsdp;

//===----------------------------------------------------------------------===//
// Collect
//===----------------------------------------------------------------------===//

namespace {

/// The buffer into which the gradients of a group are packed (StepOpInterface).
struct GradientSink {
  const GroupInfo *group;
  Operation *op;
  int64_t start, end; // positions: when all gradients must be ready, and their last use
  OperandRange gradients;
};

} // namespace

class LiveRanges::Builder {
public:
  Builder(LiveRanges &result, ModuleOp module, func::FuncOp step, const GroupTable &groups,
          const StepStorage &storage)
      : result(result), module(module), step(step), groups(groups), storage(storage) {}

  /// First and last uses of storages, and the packed gradients.
  LogicalResult collect();
  /// One range per buffer.
  void makeRanges();

private:
  size_t add(LiveRange range) {
    range.bytes = plan::alignToArena(range.bytes);
    result.ranges.push_back(range);
    return result.ranges.size() - 1;
  }
  size_t addPersistent(int64_t bytes, BufferCategory category, Operation *owner, unsigned index = 0,
                       int64_t storage = StepStorage::kNone) {
    return add({bytes, 0, result.numPositions - 1, category, owner, index, storage});
  }
  void collectUses();
  /// The operands of a start are live until its wait.
  LogicalResult extendToWaits();
  void keepWithoutReshard();
  void collectGradients();
  LogicalResult checkFetched();
  void addDeclarations();
  void addGradientSink(GradientSink &sink);
  void addCollectives();
  void addStates();
  void addStorages();
  bool canPlace(const GradientSink &sink, unsigned param) const;
  void touch(int64_t index, int64_t position) {
    for (; index != StepStorage::kNone; index = storage.getStorages()[index].whole) {
      if (firstUse[index] < 0)
        firstUse[index] = position;
      lastUse[index] = std::max(lastUse[index], position);
    }
  }

  LiveRanges &result;
  ModuleOp module;
  func::FuncOp step;
  const GroupTable &groups;
  const StepStorage &storage;

  std::vector<int64_t> firstUse, lastUse;    // by storage; the definition is the first use
  DenseMap<Operation *, int64_t> launchOf;   // of starts: their own position, or their bucket's
  DenseMap<Value, int64_t> waitOf;           // by handle: position of the wait
  SmallVector<Operation *> starts, packers;  // operations with a handle; with packed operands
  DenseMap<Operation *, int64_t> positionOf; // of packers
  SmallVector<GradientSink> sinks;
};

void LiveRanges::Builder::collectUses() {
  int64_t position = 0, launch = 0;
  for (Operation &op : step.getBody().front()) {
    // The results of all starts of a bucket are live from its first start on.
    auto collective = dyn_cast<CollectiveOpInterface>(op);
    if (collective && !collective.getCoalesced())
      launch = position;
    if (Value handle = getStartedHandle(op)) {
      launchOf[&op] = collective ? launch : position;
      touch(storage.lookup(handle), launchOf[&op]);
      starts.push_back(&op);
    }
    if (Value handle = getAwaitedHandle(op))
      waitOf[handle] = position;
    auto uses = dyn_cast<StepOpInterface>(op);
    if (uses && !uses.getPacked().empty()) {
      packers.push_back(&op);
      positionOf[&op] = position;
    }
    storage.forEachTouched(op, [&](int64_t index) { touch(index, position); });
    ++position;
  }
  result.numPositions = position;
}

LogicalResult LiveRanges::Builder::extendToWaits() {
  for (Operation *start : starts) {
    auto wait = waitOf.find(getStartedHandle(*start));
    if (wait == waitOf.end())
      return start->emitOpError("is never waited for");
    // Packed operands are only read at the launch; their copies in the sink are read later.
    for (Value operand :
         start->getOperands().drop_front(cast<StepOpInterface>(start).getPacked().size()))
      touch(storage.lookup(operand), wait->second);
  }
  return success();
}

/// Gathered parameters without a reshard are live until the end.
void LiveRanges::Builder::keepWithoutReshard() {
  for (auto [index, item] : llvm::enumerate(storage.getStorages()))
    if (auto wait = dyn_cast<AllGatherWaitOp>(item.owner); wait && !wait.getStart().getReshard())
      touch(index, result.numPositions - 1);
}

void LiveRanges::Builder::collectGradients() {
  for (Operation *op : packers) {
    OperandRange gradients = cast<StepOpInterface>(op).getPacked();
    int64_t index = storage.lookup(op->getResult(0));
    const GroupInfo *group = storage.getStorages()[index].group;
    Value handle = getStartedHandle(*op);
    int64_t start = handle ? launchOf.lookup(op) : positionOf.lookup(op);
    int64_t end = handle ? waitOf.lookup(handle) : lastUse[index];
    sinks.push_back({group, op, start, end, gradients});
  }
}

LogicalResult LiveRanges::Builder::checkFetched() {
  DenseSet<Attribute> fetched;
  for (auto fetch : step.getOps<FetchStateStartOp>())
    fetched.insert(fetch.getGroupAttr());
  for (const GroupInfo &group : groups.getGroups()) {
    GroupOp op = group.op;
    if (step.getSymName() == kEvaluationName)
      continue;
    if (group.isFrozen())
      continue;
    if (std::optional<std::string> open = explainOpenActivationOffload(op))
      return op.emitOpError("@") << op.getSymName() << ' ' << *open;
    if (!group.states.empty())
      if (std::optional<std::string> open = explainOpenOffload(op))
        return op.emitOpError("@") << op.getSymName() << ' ' << *open;
    if (op.isUpdatedFromHost() && !fetched.contains(group.getName()))
      return op.emitOpError("@") << op.getSymName() << " has its "
                                 << (op.isStateOnHost() ? "optimizer state" : "parameters")
                                 << " on the host, but it is never fetched for the update; run "
                                    "fsdp-offload-optimizer";
  }
  return success();
}

LogicalResult LiveRanges::Builder::collect() {
  auto optimizers = module.getOps<OptimizerOp>();
  if (!llvm::hasSingleElement(optimizers))
    return module.emitError("has ")
           << std::distance(optimizers.begin(), optimizers.end()) << " optimizers, expected one";
  firstUse.assign(storage.getStorages().size(), -1);
  lastUse.assign(storage.getStorages().size(), -1);
  collectUses();
  if (failed(extendToWaits()) || failed(checkFetched()))
    return failure();
  keepWithoutReshard();
  collectGradients();
  return success();
}

//===----------------------------------------------------------------------===//
// Ranges
//===----------------------------------------------------------------------===//

/// True if the operation that computes this gradient may write it directly into the group's packed
/// gradients: the gradient is its whole storage, contiguous, and the storage has no range yet.
bool LiveRanges::Builder::canPlace(const GradientSink &sink, unsigned param) const {
  int64_t index = storage.lookup(sink.gradients[param]);
  if (index == StepStorage::kNone || result.rangeOfStorage[index] != kNone)
    return false;
  // A later reader of the gradient must find it unchanged.
  if (overwritesPacked(sink.op) && lastUse[index] > positionOf.lookup(sink.op))
    return false;
  const Storage &item = storage.getStorages()[index];
  auto type = cast<RankedTensorType>(sink.gradients[param].getType());
  int64_t bytes = type.getNumElements() * sink.group->gradients.elementBytes;
  return item.category == BufferCategory::Activation && item.bytes == bytes && isContiguous(type) &&
         getTensorLayout(type).offset == 0;
}

void LiveRanges::Builder::addGradientSink(GradientSink &sink) {
  const GroupInfo &group = *sink.group;
  auto noteCopy = [&](unsigned param) {
    ++result.numCopied;
    result.bytesCopied += group.getParamElements(param) * group.gradients.elementBytes;
  };
  if (!group.isFlat()) {
    // Every gradient is copied, and all of the group's gradients are live together.
    result.rangesOf[sink.op].push_back(
        add({group.gradients.wholeBytes, sink.start, sink.end, BufferCategory::Gradient, sink.op}));
    for (unsigned param = 0; param < group.gradients.numParams; ++param)
      noteCopy(param);
    return;
  }
  int64_t bundle = result.ranges.size();
  for (unsigned param = 0; param < group.gradients.numParams; ++param) {
    int64_t begin = group.getParamBegin(param, group.gradients);
    int64_t first = sink.start, last = sink.end;
    bool placed = canPlace(sink, param);
    int64_t index = storage.lookup(sink.gradients[param]);
    if (placed) {
      ++result.numPlaced;
      first = std::min(first, firstUse[index]);
      last = std::max(last, lastUse[index]);
    } else {
      noteCopy(param);
    }
    size_t range = add({group.getParamEnd(param, group.gradients) - begin, first, last,
                        BufferCategory::Gradient, sink.op, param,
                        placed ? index : StepStorage::kNone, bundle, begin});
    if (placed)
      result.rangeOfStorage[index] = range;
    result.rangesOf[sink.op].push_back(range);
  }
}

void LiveRanges::Builder::addDeclarations() {
  for (const GroupInfo &group : groups.getGroups()) {
    GroupOp op = group.op;
    KeptRanges &kept = result.keptBy.emplace_back();
    if (!op.areParametersOnHost())
      kept.shard = addPersistent(group.master.shardBytes, BufferCategory::Shard, op);
    if (!op.isStateOnHost())
      for (auto [i, state] : llvm::enumerate(group.states))
        kept.states.push_back(
            addPersistent(state.shardBytes, BufferCategory::OptimizerState, op, i + 1));
    if (group.hasGatherCopy() && !op.areParametersOnHost())
      kept.copy = addPersistent(group.gathered.shardBytes, BufferCategory::Shard, op, 1);
  }
  for (auto buffer : module.getOps<BufferOp>())
    result.rangesOf[buffer].push_back(addPersistent(
        getStorageBytes(cast<RankedTensorType>(buffer.getType())), BufferCategory::Buffer, buffer));
}

/// Gathered groups and reduced shards: the results of collectives, and packed gradients.
void LiveRanges::Builder::addCollectives() {
  for (Operation *op : starts) {
    int64_t index = storage.lookup(getStartedHandle(*op));
    if (index == StepStorage::kNone || storage.getStorages()[index].owner != op)
      continue; // in place or on the host
    const Storage &item = storage.getStorages()[index];
    if (item.category == BufferCategory::OptimizerState)
      continue; // addStates()
    size_t range = add({item.bytes, firstUse[index], lastUse[index], item.category, op});
    result.rangesOf[op].push_back(range);
  }
}

void LiveRanges::Builder::addStates() {
  for (auto fetch : step.getOps<FetchStateStartOp>()) {
    int64_t index = storage.lookup(fetch.getHandle());
    const GroupInfo &group = groups.lookup(fetch.getGroupAttr());
    for (const HostPart &part : group.getHostParts())
      result.rangesOf[fetch].push_back(add(
          {part.fetchedBytes, firstUse[index], lastUse[index], part.category, fetch, part.index}));
  }
}

/// True for starts and packing operations, whose results already have ranges.
static bool hasRanges(Operation *owner) {
  auto uses = dyn_cast<StepOpInterface>(owner);
  return getStartedHandle(*owner) || (uses && !uses.getPacked().empty());
}

/// Tensors and shards that operations compute, constants and inputs. All other storages have ranges
/// already, or are parts of storages that have.
void LiveRanges::Builder::addStorages() {
  for (auto [index, item] : llvm::enumerate(storage.getStorages())) {
    size_t &range = result.rangeOfStorage[index];
    if (range != kNone || item.isDeclared || item.whole != StepStorage::kNone ||
        hasRanges(item.owner))
      continue;
    if (item.category == BufferCategory::Constant || item.category == BufferCategory::Input)
      range = addPersistent(item.bytes, item.category, item.owner, item.index, index);
    else
      range = add({item.bytes, firstUse[index], lastUse[index], item.category, item.owner,
                   item.index, static_cast<int64_t>(index)});
  }
}

void LiveRanges::Builder::makeRanges() {
  result.rangeOfStorage.assign(storage.getStorages().size(), kNone);
  addDeclarations();
  for (GradientSink &sink : sinks)
    addGradientSink(sink);
  addCollectives();
  addStates();
  addStorages();
}

FailureOr<LiveRanges> LiveRanges::build(ModuleOp module, func::FuncOp step,
                                        const GroupTable &groups, const StepStorage &storage) {
  LiveRanges result;
  Builder builder(result, module, step, groups, storage);
  if (failed(builder.collect()))
    return failure();
  builder.makeRanges();
  return result;
}

std::vector<int64_t> fsdp::getLiveBytes(ArrayRef<LiveRange> ranges, int64_t numPositions) {
  std::vector<int64_t> bytes(numPositions + 1);
  for (const LiveRange &range : ranges) {
    bytes[range.first] += range.bytes;
    bytes[range.last + 1] -= range.bytes;
  }
  bytes.pop_back();
  int64_t live = 0;
  for (int64_t &entry : bytes)
    entry = live += entry;
  return bytes;
}

static std::vector<plan::BufferRange> toBuffers(ArrayRef<LiveRange> ranges) {
  std::vector<plan::BufferRange> buffers;
  buffers.reserve(ranges.size());
  for (const LiveRange &range : ranges)
    buffers.push_back({range.bytes, range.first, range.last, range.bundle, range.bundleOffset});
  return buffers;
}

plan::ArenaPlan fsdp::planArena(ArrayRef<LiveRange> ranges) {
  return plan::planArena(toBuffers(ranges));
}

plan::ArenaPlan fsdp::fillArena(ArrayRef<LiveRange> ranges, ArrayRef<int64_t> known) {
  return plan::fillArena(toBuffers(ranges), known);
}
