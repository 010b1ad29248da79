//===- LiveRanges.cpp - What is in memory when ----------------------------===//

#include "fsdp/Analysis/LiveRanges.h"

#include "fsdp/IR/TensorLayout.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fsdp;

//===----------------------------------------------------------------------===//
// Collect
//===----------------------------------------------------------------------===//

namespace {

/// Where the gradients of a group come together: a reduction's input, or on one rank what an update
/// reads.
struct GradientSink {
  const GroupInfo *group;
  Operation *op;      // the reduction's start, or the update
  int64_t start, end; // positions: when all gradients must be there, and when they are used up
  SmallVector<Value> gradients;
  SmallVector<int64_t> readAt; // by parameter: the position at which an unplaced gradient is copied
};

} // namespace

class LiveRanges::Builder {
public:
  Builder(LiveRanges &result, ModuleOp module, func::FuncOp step, const GroupTable &groups,
          const StepStorage &storage)
      : result(result), module(module), step(step), groups(groups), storage(storage) {}

  /// Positions of operations, last uses of storages, ends of collectives, gradients.
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
  LogicalResult collectGradients();
  LogicalResult collectStates();
  void addDeclarations();
  void addGradientSink(GradientSink &sink);
  void addCollectives();
  void addStates();
  void addStorages();
  bool canPlace(const GradientSink &sink, unsigned param) const;
  /// The position of a start, or of the first one of its bucket.
  int64_t getLaunch(Operation *start) const { return launchOf.lookup(start); }

  LiveRanges &result;
  ModuleOp module;
  func::FuncOp step;
  const GroupTable &groups;
  const StepStorage &storage;
  OptimizerOp optimizer;

  DenseMap<Operation *, int64_t> positionOf; // of updates and gradients
  DenseMap<Operation *, int64_t> launchOf;   // of starts
  std::vector<int64_t> firstUse, lastUse;    // by storage; the definition is the first use
  DenseMap<Operation *, int64_t> endOf;      // of starts: position of the wait or the release
  /// Of reductions: position of the wait for the all-reduce that goes on with the result.
  DenseMap<Operation *, int64_t> acrossEndOf;
  SmallVector<GradientSink> sinks;
  /// Of groups whose optimizer state is on the host: when it is in the arena.
  struct FetchedState {
    FetchStateStartOp fetch;
    int64_t first, last;
  };
  SmallVector<FetchedState> states;
};

LogicalResult LiveRanges::Builder::collect() {
  auto optimizers = module.getOps<OptimizerOp>();
  if (!llvm::hasSingleElement(optimizers))
    return module.emitError("has ")
           << std::distance(optimizers.begin(), optimizers.end()) << " optimizers, expected one";
  optimizer = *optimizers.begin();
  size_t numStorages = storage.getStorages().size();
  firstUse.assign(numStorages, -1);
  lastUse.assign(numStorages, -1);
  int64_t position = 0, launch = 0;
  DenseMap<Operation *, int64_t> waitOf, releaseOf; // by start
  for (Operation &op : step.getBody().front()) {
    auto use = [&](Value value) {
      if (int64_t index = storage.lookup(value); index != StepStorage::kNone) {
        if (firstUse[index] < 0)
          firstUse[index] = position;
        lastUse[index] = position;
      }
    };
    llvm::for_each(op.getOperands(), use);
    llvm::for_each(op.getResults(), use);
    llvm::TypeSwitch<Operation *>(&op)
        .Case<AllGatherStartOp, ReduceScatterStartOp>([&](auto start) {
          if (!start.getCoalesced())
            launch = position;
          launchOf[&op] = launch;
        })
        .Case([&](GradOp) { positionOf[&op] = position; })
        .Case<AllGatherWaitOp, ReduceScatterWaitOp>(
            [&](auto wait) { waitOf[wait.getHandle().getDefiningOp()] = position; })
        .Case([&](AllReduceWaitOp wait) {
          auto across = wait.getHandle().getDefiningOp<AllReduceStartOp>();
          acrossEndOf[across.getReduction().getDefiningOp()] = position;
        })
        .Case([&](ReleaseOp release) { releaseOf[release.getHandle().getDefiningOp()] = position; })
        .Case([&](UpdateOp update) {
          positionOf[&op] = position;
          result.updateOf[update.getTargetAttr().getAttr()] = update;
        });
    ++position;
  }
  result.numPositions = position;
  int64_t lastPosition = position - 1;

  for (Operation &op : step.getBody().front()) {
    if (!isa<AllGatherStartOp, ReduceScatterStartOp>(op))
      continue;
    if (!waitOf.contains(&op))
      return op.emitOpError("is never waited for");
    auto gather = dyn_cast<AllGatherStartOp>(op);
    bool isFlat = gather && groups.lookup(gather.getGroupAttr()).isFlat();
    if (!isFlat)
      endOf[&op] = waitOf[&op];
    else
      endOf[&op] = releaseOf.contains(&op) ? releaseOf[&op] : lastPosition;
  }
  // The copies of a per-param gather live until its release.
  for (auto [index, item] : llvm::enumerate(storage.getStorages()))
    if (item.kind == Storage::Kind::Parameter || item.kind == Storage::Kind::Gathered) {
      Operation *start = cast<AllGatherWaitOp>(item.owner).getHandle().getDefiningOp();
      int64_t end = releaseOf.contains(start) ? releaseOf[start] : lastPosition;
      lastUse[index] = std::max(lastUse[index], end);
      if (item.kind == Storage::Kind::Gathered)
        endOf[start] = std::max(endOf[start], lastUse[index]);
    }
  if (failed(collectStates()))
    return failure();
  return collectGradients();
}

LogicalResult LiveRanges::Builder::collectStates() {
  DenseMap<StringAttr, size_t> stateOf; // by group
  for (auto [position, op] : llvm::enumerate(step.getBody().front())) {
    if (auto fetch = dyn_cast<FetchStateStartOp>(op)) {
      stateOf[fetch.getGroupAttr().getAttr()] = states.size();
      states.push_back({fetch, static_cast<int64_t>(position), -1});
    } else if (auto wait = dyn_cast<StoreStateWaitOp>(op)) {
      auto store = wait.getHandle().getDefiningOp<StoreStateStartOp>();
      auto found = stateOf.find(store.getGroupAttr().getAttr());
      if (found == stateOf.end())
        return store.emitOpError("of ") << store.getGroupAttr() << " stores what was not fetched";
      states[found->second].last = position;
    }
  }
  for (FetchedState &state : states)
    if (state.last < 0)
      return state.fetch.emitOpError("of ") << state.fetch.getGroupAttr() << " is never stored";
  for (const GroupInfo &group : groups.getGroups()) {
    GroupOp op = group.op;
    if (op.isStateOnHost() && getNumOptimizerStates(optimizer) > 0 &&
        !stateOf.contains(op.getSymNameAttr()))
      return op.emitOpError("@") << op.getSymName()
                                 << " has its optimizer state on the host, but it is never "
                                    "fetched; run fsdp-offload-optimizer";
  }
  return success();
}

LogicalResult LiveRanges::Builder::collectGradients() {
  // On one rank gradients are said one by one, and the group's update reads them.
  DenseMap<StringAttr, size_t> sinkOf;
  for (Operation &op : step.getBody().front()) {
    if (auto start = dyn_cast<ReduceScatterStartOp>(op)) {
      const GroupInfo &group = groups.lookup(start.getGroupAttr());
      int64_t at = getLaunch(start);
      sinks.push_back({&group, &op, at, endOf[&op], llvm::to_vector(start.getGrads()),
                       SmallVector<int64_t>(group.params.size(), at)});
      continue;
    }
    auto grad = dyn_cast<GradOp>(op);
    if (!grad)
      continue;
    auto [group, param] = groups.lookupParam(grad.getParamAttr());
    if (!group || groups.getRanks() > 1)
      return grad.emitOpError("of ") << grad.getParamAttr() << " is never reduced over the "
                                     << groups.getRanks() << " ranks";
    GroupOp groupOp = group->op;
    StringAttr name = groupOp.getSymNameAttr();
    UpdateOp update = result.updateOf.lookup(name);
    if (!update || positionOf[update] < positionOf[grad])
      return grad.emitOpError("of ")
             << grad.getParamAttr() << " is followed by no update of @" << name.getValue();
    auto [entry, isNew] = sinkOf.try_emplace(name, sinks.size());
    if (isNew) {
      int64_t end = positionOf[update];
      sinks.push_back({group, update, end, end, SmallVector<Value>(group->params.size()),
                       SmallVector<int64_t>(group->params.size(), end)});
    }
    sinks[entry->second].gradients[param] = grad.getValue();
    sinks[entry->second].readAt[param] = positionOf[grad];
  }
  for (GradientSink &sink : sinks)
    for (auto [param, value] : llvm::enumerate(sink.gradients))
      if (!value) {
        ParamOp op = sink.group->params[param];
        return sink.op->emitOpError("lacks the gradient of parameter @") << op.getSymName();
      }
  return success();
}

//===----------------------------------------------------------------------===//
// Ranges
//===----------------------------------------------------------------------===//

/// True if the operation that makes this gradient may write it where the group's gradients lie: the
/// gradient is all that its storage holds, contiguous, and its storage is not placed yet.
bool LiveRanges::Builder::canPlace(const GradientSink &sink, unsigned param) const {
  int64_t index = storage.lookup(sink.gradients[param]);
  if (index == StepStorage::kNone || result.rangeOfStorage[index] != kNone)
    return false;
  const Storage &item = storage.getStorages()[index];
  auto type = cast<RankedTensorType>(sink.gradients[param].getType());
  int64_t bytes = type.getNumElements() * sink.group->gradients.elementBytes;
  return item.kind == Storage::Kind::Fresh && item.bytes == bytes && isContiguous(type) &&
         getTensorLayout(type).offset == 0;
}

void LiveRanges::Builder::addGradientSink(GradientSink &sink) {
  const GroupInfo &group = *sink.group;
  auto noteCopy = [&](unsigned param) {
    ++result.numCopied;
    result.bytesCopied += group.getParamElements(param) * group.gradients.elementBytes;
  };
  if (!group.isFlat()) {
    // Every gradient is copied, and all of the group's are live together.
    int64_t first = *llvm::min_element(sink.readAt);
    result.rangesOf[sink.op].push_back(
        add({group.gradients.wholeBytes, first, sink.end, BufferCategory::Gradient, sink.op}));
    for (unsigned param = 0; param < group.params.size(); ++param)
      noteCopy(param);
    return;
  }
  int64_t bundle = result.ranges.size();
  for (unsigned param = 0; param < group.params.size(); ++param) {
    int64_t begin = group.getParamBegin(param, group.gradients);
    int64_t first = sink.readAt[param], last = sink.end;
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
    unsigned numStates = op.isStateOnHost() ? 0 : getNumOptimizerStates(optimizer);
    for (unsigned i = 0; i < 1 + numStates; ++i)
      result.rangesOf[group.op].push_back(addPersistent(
          group.master.shardBytes, i == 0 ? BufferCategory::Shard : BufferCategory::OptimizerState,
          group.op, i));
    if (group.hasGatherCopy())
      result.rangesOf[group.op].push_back(
          addPersistent(group.gathered.shardBytes, BufferCategory::Shard, group.op, 1 + numStates));
  }
  for (auto buffer : module.getOps<BufferOp>())
    result.rangesOf[buffer].push_back(addPersistent(
        getStorageBytes(cast<RankedTensorType>(buffer.getType())), BufferCategory::Buffer, buffer));
}

void LiveRanges::Builder::addCollectives() {
  for (Operation &op : step.getBody().front()) {
    if (auto gather = dyn_cast<AllGatherStartOp>(op)) {
      const GroupInfo &group = groups.lookup(gather.getGroupAttr());
      result.rangesOf[&op].push_back(add(
          {group.gathered.wholeBytes, getLaunch(&op), endOf[&op], BufferCategory::Gathered, &op}));
    } else if (auto reduction = dyn_cast<ReduceScatterStartOp>(op)) {
      // The reduced shard, until the update has read it.
      const GroupInfo &group = groups.lookup(reduction.getGroupAttr());
      UpdateOp update = result.updateOf.lookup(reduction.getGroupAttr().getAttr());
      int64_t end = update ? std::max({positionOf[update], endOf[&op], acrossEndOf.lookup(&op)})
                           : result.numPositions - 1;
      result.rangesOf[&op].push_back(add(
          {group.gradients.shardBytes, getLaunch(&op), end, BufferCategory::ReducedShard, &op}));
    }
  }
}

void LiveRanges::Builder::addStates() {
  for (FetchedState &state : states) {
    int64_t bytes = groups.lookup(state.fetch.getGroupAttr()).master.shardBytes;
    for (unsigned i = 0; i < getNumOptimizerStates(optimizer); ++i)
      result.rangesOf[state.fetch].push_back(add(
          {bytes, state.first, state.last, BufferCategory::OptimizerState, state.fetch, i + 1}));
  }
}

void LiveRanges::Builder::addStorages() {
  for (auto [index, item] : llvm::enumerate(storage.getStorages())) {
    size_t &range = result.rangeOfStorage[index];
    switch (item.kind) {
    case Storage::Kind::Fresh:
    case Storage::Kind::Parameter:
      if (range == kNone)
        range = add({item.bytes, firstUse[index], lastUse[index],
                     item.kind == Storage::Kind::Fresh ? BufferCategory::Activation
                                                       : BufferCategory::Gathered,
                     item.owner, item.index, static_cast<int64_t>(index)});
      break;
    case Storage::Kind::Constant:
      range = addPersistent(item.bytes, BufferCategory::Constant, item.owner, item.index, index);
      break;
    case Storage::Kind::Input:
      range = addPersistent(item.bytes, BufferCategory::Input, item.owner, item.index, index);
      break;
    case Storage::Kind::Buffer:
    case Storage::Kind::Shard:
    case Storage::Kind::Gathered:
      break; // parts of what has a range already
    }
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

plan::ArenaPlan fsdp::planArena(ArrayRef<LiveRange> ranges) {
  std::vector<plan::BufferRange> buffers;
  buffers.reserve(ranges.size());
  for (const LiveRange &range : ranges)
    buffers.push_back({range.bytes, range.first, range.last, range.bundle, range.bundleOffset});
  return plan::planArena(buffers);
}
