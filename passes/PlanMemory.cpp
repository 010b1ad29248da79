//===- PlanMemory.cpp - Places in the arena for every buffer --------------===//

#include "passes/Passes.h"

#include "fsdp/Export/GroupTable.h"
#include "fsdp/Export/StepStorage.h"
#include "fsdp/IR/TensorLayout.h"
#include "fsdp/Plan/ArenaPlanner.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"
#include "llvm/ADT/TypeSwitch.h"

namespace fsdp {
#define GEN_PASS_DEF_PLANMEMORY
#include "passes/Passes.h.inc"
} // namespace fsdp

#define DEBUG_TYPE "fsdp-plan-memory"

using namespace mlir;
using namespace fsdp;

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

/// Collects the step's buffers with their live ranges, has them placed, writes the offsets.
class MemoryPlanner {
public:
  MemoryPlanner(ModuleOp module, func::FuncOp step, GroupTable &groups, StepStorage &storage)
      : module(module), step(step), groups(groups), storage(storage) {}

  /// Positions of operations, last uses of storages, ends of collectives, gradients.
  LogicalResult collect();
  /// One range per buffer.
  void makeRanges();
  void plan() { arena = plan::planArena(ranges); }
  void writeOffsets();

  const plan::ArenaPlan &getArena() const { return arena; }

  int64_t numPlaced = 0, numCopied = 0, bytesCopied = 0;

private:
  static constexpr size_t kNoRange = ~size_t(0);

  size_t addRange(int64_t bytes, int64_t first, int64_t last, int64_t bundle = -1,
                  int64_t bundleOffset = 0) {
    ranges.push_back({bytes, first, last, bundle, bundleOffset});
    return ranges.size() - 1;
  }
  size_t addPersistent(int64_t bytes) { return addRange(bytes, 0, lastPosition); }
  LogicalResult collectGradients();
  void addGradientSink(GradientSink &sink);
  bool canPlace(const GradientSink &sink, unsigned param) const;
  int64_t offsetOf(size_t range) const { return arena.offsets[range]; }

  ModuleOp module;
  func::FuncOp step;
  GroupTable &groups;
  StepStorage &storage;
  OptimizerOp optimizer;

  int64_t lastPosition = 0;
  DenseMap<Operation *, int64_t> positionOf; // of starts, waits, releases, updates and gradients
  std::vector<int64_t> firstUse, lastUse;    // by storage; the definition is the first use
  DenseMap<Operation *, int64_t> endOf;      // of starts: position of the wait or the release
  DenseMap<StringAttr, UpdateOp> updateOf;   // by group
  SmallVector<GradientSink> sinks;

  std::vector<plan::BufferRange> ranges;
  std::vector<size_t> rangeOfStorage;                  // kNoRange: not a buffer of its own
  DenseMap<Operation *, SmallVector<size_t>> rangesOf; // of declarations, collectives and updates
  plan::ArenaPlan arena;
};

} // namespace

LogicalResult MemoryPlanner::collect() {
  auto optimizers = module.getOps<OptimizerOp>();
  if (!llvm::hasSingleElement(optimizers))
    return module.emitError("has ")
           << std::distance(optimizers.begin(), optimizers.end()) << " optimizers, expected one";
  optimizer = *optimizers.begin();
  size_t numStorages = storage.getStorages().size();
  firstUse.assign(numStorages, -1);
  lastUse.assign(numStorages, -1);
  int64_t position = 0;
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
        .Case<AllGatherStartOp, ReduceScatterStartOp, GradOp>(
            [&](Operation *) { positionOf[&op] = position; })
        .Case<AllGatherWaitOp, ReduceScatterWaitOp>(
            [&](auto wait) { waitOf[wait.getHandle().getDefiningOp()] = position; })
        .Case([&](ReleaseOp release) { releaseOf[release.getHandle().getDefiningOp()] = position; })
        .Case([&](UpdateOp update) {
          positionOf[&op] = position;
          updateOf[update.getTargetAttr().getAttr()] = update;
        });
    lastPosition = position++;
  }

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
  return collectGradients();
}

LogicalResult MemoryPlanner::collectGradients() {
  // On one rank gradients are said one by one, and the group's update reads them.
  DenseMap<StringAttr, size_t> sinkOf;
  for (Operation &op : step.getBody().front()) {
    if (auto start = dyn_cast<ReduceScatterStartOp>(op)) {
      const GroupInfo &group = groups.lookup(start.getGroupAttr());
      int64_t at = positionOf[&op];
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
    UpdateOp update = updateOf.lookup(name);
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

/// True if the operation that makes this gradient may write it where the group's gradients lie: the
/// gradient is all that its storage holds, contiguous, and its storage is not placed yet.
bool MemoryPlanner::canPlace(const GradientSink &sink, unsigned param) const {
  int64_t index = storage.lookup(sink.gradients[param]);
  if (index == StepStorage::kNone || rangeOfStorage[index] != kNoRange)
    return false;
  const Storage &item = storage.getStorages()[index];
  auto type = cast<RankedTensorType>(sink.gradients[param].getType());
  int64_t bytes = type.getNumElements() * sink.group->elementBytes;
  return item.kind == Storage::Kind::Fresh && item.bytes == bytes && isContiguous(type) &&
         getTensorLayout(type).offset == 0;
}

void MemoryPlanner::addGradientSink(GradientSink &sink) {
  const GroupInfo &group = *sink.group;
  auto noteCopy = [&](unsigned param) {
    ++numCopied;
    bytesCopied += group.getParamElements(param) * group.elementBytes;
  };
  if (!group.isFlat()) {
    // Every gradient is copied, and all of the group's are live together.
    int64_t first = *llvm::min_element(sink.readAt);
    rangesOf[sink.op].push_back(addRange(group.gatheredBytes(), first, sink.end));
    for (unsigned param = 0; param < group.params.size(); ++param)
      noteCopy(param);
    return;
  }
  int64_t bundle = ranges.size();
  for (unsigned param = 0; param < group.params.size(); ++param) {
    int64_t begin = group.getParamBegin(param);
    int64_t first = sink.readAt[param], last = sink.end;
    bool placed = canPlace(sink, param);
    int64_t index = storage.lookup(sink.gradients[param]);
    if (placed) {
      ++numPlaced;
      first = std::min(first, firstUse[index]);
      last = std::max(last, lastUse[index]);
    } else {
      noteCopy(param);
    }
    size_t range = addRange(group.getParamEnd(param) - begin, first, last, bundle, begin);
    if (placed)
      rangeOfStorage[index] = range;
    if (param == 0)
      rangesOf[sink.op].push_back(range);
  }
}

void MemoryPlanner::makeRanges() {
  rangeOfStorage.assign(storage.getStorages().size(), kNoRange);
  for (const GroupInfo &group : groups.getGroups())
    for (unsigned i = 0; i < 1 + getNumOptimizerStates(optimizer); ++i)
      rangesOf[group.op].push_back(addPersistent(group.shardBytes()));
  for (auto buffer : module.getOps<BufferOp>())
    rangesOf[buffer].push_back(
        addPersistent(getStorageBytes(cast<RankedTensorType>(buffer.getType()))));
  for (GradientSink &sink : sinks)
    addGradientSink(sink);
  for (Operation &op : step.getBody().front()) {
    if (auto gather = dyn_cast<AllGatherStartOp>(op)) {
      const GroupInfo &group = groups.lookup(gather.getGroupAttr());
      rangesOf[&op].push_back(addRange(group.gatheredBytes(), positionOf[&op], endOf[&op]));
    } else if (auto reduction = dyn_cast<ReduceScatterStartOp>(op)) {
      // The reduced shard, until the update has read it.
      const GroupInfo &group = groups.lookup(reduction.getGroupAttr());
      UpdateOp update = updateOf.lookup(reduction.getGroupAttr().getAttr());
      int64_t end = update ? std::max(positionOf[update], endOf[&op]) : lastPosition;
      rangesOf[&op].push_back(addRange(group.shardBytes(), positionOf[&op], end));
    }
  }
  for (auto [index, item] : llvm::enumerate(storage.getStorages())) {
    switch (item.kind) {
    case Storage::Kind::Fresh:
    case Storage::Kind::Parameter:
      if (rangeOfStorage[index] == kNoRange)
        rangeOfStorage[index] = addRange(item.bytes, firstUse[index], lastUse[index]);
      break;
    case Storage::Kind::Constant:
    case Storage::Kind::Input:
      rangeOfStorage[index] = addPersistent(item.bytes);
      break;
    case Storage::Kind::Buffer:
    case Storage::Kind::Shard:
    case Storage::Kind::Gathered:
      break; // parts of what is placed already
    }
  }
}

void MemoryPlanner::writeOffsets() {
  Builder builder(module.getContext());
  for (const GroupInfo &group : groups.getGroups()) {
    GroupOp op = group.op;
    op.setOffsets(llvm::map_to_vector(rangesOf[op], [&](size_t range) { return offsetOf(range); }));
  }
  for (auto buffer : module.getOps<BufferOp>())
    buffer.setOffset(offsetOf(rangesOf[buffer].front()));
  auto valueOffset = [&](Value value) -> int64_t {
    int64_t index = storage.lookup(value);
    return index == StepStorage::kNone ? -1 : offsetOf(rangeOfStorage[index]);
  };
  for (Operation &op : step.getBody().front())
    llvm::TypeSwitch<Operation *>(&op)
        .Case([&](aten::CallOp call) {
          if (!call.isView())
            call.setOffsets(llvm::map_to_vector(call.getResults(), valueOffset));
        })
        .Case<InputOp, aten::ConstantOp>([&](auto op) {
          if (isa<RankedTensorType>(op.getResult().getType()))
            op.setOffset(std::max<int64_t>(valueOffset(op.getResult()), 0));
        })
        .Case([&](AllGatherStartOp start) { start.setOffset(offsetOf(rangesOf[start].front())); })
        .Case([&](AllGatherWaitOp wait) {
          auto start = wait.getHandle().getDefiningOp<AllGatherStartOp>();
          if (!groups.lookup(start.getGroupAttr()).isFlat())
            wait.setOffsets(llvm::map_to_vector(wait.getResults(), [&](Value value) {
              return std::max<int64_t>(valueOffset(value), 0);
            }));
        })
        .Case([&](ReduceScatterStartOp start) {
          // The gradients were the first to be noted, then the reduced shard.
          ArrayRef<size_t> both = rangesOf[start];
          start.setOffsets(ArrayRef<int64_t>{offsetOf(both[0]), offsetOf(both[1])});
        })
        .Case([&](UpdateOp update) {
          // On one rank the update reads the gradients themselves.
          auto found = rangesOf.find(update);
          if (found != rangesOf.end())
            update.setOffset(offsetOf(found->second.front()));
        });
  for (GradientSink &sink : sinks)
    if (auto start = dyn_cast<ReduceScatterStartOp>(sink.op))
      if (UpdateOp update = updateOf.lookup(start.getGroupAttr().getAttr()))
        update.setOffset((*start.getOffsets())[1]);
  module->setAttr(FsdpDialect::getArenaAttrName(), builder.getI64IntegerAttr(arena.arenaBytes));
  module->setAttr(FsdpDialect::getPeakAttrName(), builder.getI64IntegerAttr(arena.peakLiveBytes));
  module->setAttr(FsdpDialect::getPhaseAttrName(),
                  ModulePhaseAttr::get(module.getContext(), ModulePhase::Planned));
}

namespace {
struct PlanMemoryPass : public fsdp::impl::PlanMemoryBase<PlanMemoryPass> {
  using PlanMemoryBase::PlanMemoryBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<func::FuncOp> step = getStep(module, ModulePhase::Scheduled);
    if (failed(step))
      return signalPassFailure();
    FailureOr<GroupTable> groups = GroupTable::build(module);
    if (failed(groups))
      return signalPassFailure();
    FailureOr<StepStorage> storage = StepStorage::build(*step, *groups);
    if (failed(storage))
      return signalPassFailure();

    MemoryPlanner planner(module, *step, *groups, *storage);
    if (failed(planner.collect()))
      return signalPassFailure();
    planner.makeRanges();
    planner.plan();
    const plan::ArenaPlan &arena = planner.getArena();
    int64_t cap = memoryCapBytes;
    if (cap > 0 && arena.arenaBytes > cap) {
      module.emitError("the step needs an arena of ")
          << arena.arenaBytes << " bytes, more than the memory cap of " << cap
          << " bytes; at least " << arena.peakLiveBytes << " bytes are live at once";
      return signalPassFailure();
    }
    planner.writeOffsets();
    double ratio = arena.peakLiveBytes == 0
                       ? 1.0
                       : static_cast<double>(arena.arenaBytes) / arena.peakLiveBytes;
    remark::analysis(module.getLoc(), remark::RemarkOpts::name("memory").category(DEBUG_TYPE))
        << remark::metric("ArenaBytes", arena.arenaBytes)
        << remark::metric("PeakLiveBytes", arena.peakLiveBytes)
        << remark::metric("ArenaOverPeak", ratio)
        << remark::metric("GradientsPlaced", planner.numPlaced)
        << remark::metric("GradientsCopied", planner.numCopied)
        << remark::metric("GradientBytesCopied", planner.bytesCopied);
  }
};
} // namespace
