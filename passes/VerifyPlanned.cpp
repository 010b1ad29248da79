//===- VerifyPlanned.cpp - Proof that live buffers are apart --------------===//
//
// Walks the program once forward. At each operation the storages that it makes are entered into a
// map of occupied bytes, where they must find their place free; they leave after their last use.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"

#include "fsdp/Analysis/Clipping.h"
#include "fsdp/Analysis/GroupTable.h"
#include "fsdp/Analysis/HostPlaces.h"
#include "fsdp/Analysis/Overwrites.h"
#include "fsdp/Analysis/StateCopies.h"
#include "fsdp/Analysis/StepStorage.h"
#include "fsdp/IR/TensorLayout.h"
#include "fsdp/Plan/ArenaPlanner.h"
#include "fsdp/Plan/OccupiedBytes.h"
#include "passes/PlannedUses.h"
#include "llvm/ADT/TypeSwitch.h"

#include <optional>

namespace fsdp {
#define GEN_PASS_DEF_VERIFYPLANNED
#include "passes/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

/// A buffer where the offsets in the module put it.
struct Placed {
  int64_t begin, bytes;
  int64_t last; // position of the last use
  Operation *owner;
  std::string name;
};

class Checker {
public:
  Checker(ModuleOp module, func::FuncOp step, GroupTable &groups, StepStorage &storage,
          int64_t arenaBytes)
      : module(module), step(step), groups(groups), storage(storage), arenaBytes(arenaBytes),
        uses(step, groups, storage) {}

  LogicalResult run();

private:
  /// Occupies the buffer's bytes, or says at its owner what is wrong with its place.
  LogicalResult place(Placed placed, bool isAligned = true);
  LogicalResult enterDeclarations();
  LogicalResult enter(Operation &op, int64_t position);
  LogicalResult enterStorage(int64_t index, std::optional<int64_t> offset, int64_t last);
  template <typename StartT>
  LogicalResult enterBucket(StartT start, LogicalResult (Checker::*enterStart)(StartT));
  LogicalResult enterGather(AllGatherStartOp start);
  LogicalResult enterReduction(ReduceScatterStartOp start);
  /// The bytes of a gradient that is copied to its place.
  LogicalResult enterGradient(const GradientSink &sink, unsigned param, Value gradient,
                              Operation *owner);
  LogicalResult enterPadding(const GradientSink &sink, Operation *owner);

  LogicalResult enterUpdate(UpdateOp update, int64_t position);
  LogicalResult enterState(FetchStateStartOp fetch);
  LogicalResult enterSquareSum(SquareSumOp sum);

  ModuleOp module;
  func::FuncOp step;
  GroupTable &groups;
  StepStorage &storage;
  int64_t arenaBytes;
  const PlannedUses uses;
  unsigned numStates = 0; // of the optimizer
  plan::OccupiedBytes occupied;
  std::vector<Placed> buffers; // all that were placed
};

} // namespace

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

static std::string getBytesText(const Placed &placed) {
  return "bytes [" + std::to_string(placed.begin) + ", " +
         std::to_string(placed.begin + placed.bytes) + ")";
}

LogicalResult Checker::place(Placed placed, bool isAligned) {
  if (placed.bytes == 0)
    return success();
  if (placed.begin < 0 || placed.begin + placed.bytes > arenaBytes)
    return placed.owner->emitOpError("P1: ")
           << placed.name << " at " << getBytesText(placed) << " does not lie within the arena of "
           << arenaBytes << " bytes";
  if (isAligned && placed.begin % plan::kArenaAlignmentBytes != 0)
    return placed.owner->emitOpError("P1: ")
           << placed.name << " lies at byte " << placed.begin << ", expected a multiple of "
           << plan::kArenaAlignmentBytes;
  auto taken = occupied.enter({placed.begin, placed.bytes, static_cast<int64_t>(buffers.size())},
                              placed.last);
  if (!taken) {
    buffers.push_back(std::move(placed));
    return success();
  }
  const Placed &other = buffers[taken->owner];
  InFlightDiagnostic diag = placed.owner->emitOpError("P2: ")
                            << placed.name << " at " << getBytesText(placed) << " overlaps "
                            << other.name << " at " << getBytesText(other) << ", which is live";
  diag.attachNote(other.owner->getLoc()) << other.name << " is made here";
  return diag;
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

static LogicalResult missingOffset(Operation *op) {
  return op->emitOpError("P1: has a buffer without an arena offset");
}

LogicalResult Checker::enterDeclarations() {
  auto optimizers = module.getOps<OptimizerOp>();
  if (!optimizers.empty())
    numStates = getNumOptimizerStates(*optimizers.begin());
  for (const GroupInfo &group : groups.getGroups()) {
    GroupOp op = group.op;
    size_t copyIndex = op.isStateOnHost() ? 1 : 1 + numStates; // behind shard and states
    size_t expected = copyIndex + group.hasGatherCopy();
    if (!op.getOffsets() || op.getOffsets()->size() != expected)
      return op.emitOpError("P1: @")
             << op.getSymName() << " has " << (op.getOffsets() ? op.getOffsets()->size() : 0)
             << " offsets, expected " << expected;
    for (auto [i, offset] : llvm::enumerate(*op.getOffsets())) {
      std::string what = i == 0           ? "the shard"
                         : i == copyIndex ? "the copy that is gathered"
                                          : "optimizer state " + std::to_string(i);
      const GroupForm &form = i == copyIndex ? group.gathered : group.master;
      if (failed(place({offset, form.shardBytes, uses.getEnd(), op,
                        what + " of @" + op.getSymName().str()})))
        return failure();
    }
  }
  for (auto buffer : module.getOps<BufferOp>()) {
    if (!buffer.getOffset())
      return missingOffset(buffer);
    if (failed(place({static_cast<int64_t>(*buffer.getOffset()),
                      getStorageBytes(cast<RankedTensorType>(buffer.getType())), uses.getEnd(),
                      buffer, "buffer @" + buffer.getSymName().str()})))
      return failure();
  }
  // Constants and inputs are there before the step begins.
  for (auto [index, item] : llvm::enumerate(storage.getStorages())) {
    std::optional<int64_t> offset;
    if (auto input = dyn_cast<InputOp>(item.owner))
      offset = input.getOffset();
    else if (auto constant = dyn_cast<aten::ConstantOp>(item.owner))
      offset = constant.getOffset();
    else
      continue;
    if (failed(enterStorage(index, offset, uses.getEnd())))
      return failure();
  }
  return success();
}

LogicalResult Checker::enterStorage(int64_t index, std::optional<int64_t> offset, int64_t last) {
  if (index == StepStorage::kNone)
    return success();
  const Storage &item = storage.getStorages()[index];
  if (!offset)
    return missingOffset(item.owner);
  return place({*offset, item.bytes, last, item.owner, describe(item)});
}

LogicalResult Checker::enterGather(AllGatherStartOp start) {
  if (!start.getOffset() || !uses.getWait(start))
    return missingOffset(start);
  const GroupInfo &group = groups.lookup(start.getGroupAttr());
  int64_t last = *uses.getWait(start);
  if (group.isFlat()) {
    last = uses.getRelease(start);
    for (Operation *user : start.getHandle().getUsers())
      if (auto wait = dyn_cast<AllGatherWaitOp>(user))
        for (Value param : wait.getResults())
          if (int64_t index = storage.lookup(param); index != StepStorage::kNone)
            last = std::max(last, uses.getLast(index));
  }
  return place({static_cast<int64_t>(*start.getOffset()), group.gathered.wholeBytes, last, start,
                "the gathered group @" + start.getGroup().str()});
}

LogicalResult Checker::enterReduction(ReduceScatterStartOp start) {
  std::optional<GradientSink> sink = uses.getSink(start);
  if (!sink)
    return missingOffset(start);
  const GroupInfo &group = *sink->group;
  UpdateOp update = uses.getUpdate(start.getGroupAttr());
  int64_t last = update ? std::max(uses.getPosition(update), sink->end) : uses.getEnd();
  for (Operation *user : start.getHandle().getUsers())
    if (isa<AllReduceStartOp>(user))
      last = std::max(last, uses.getWait(user).value_or(uses.getEnd()));
  std::string name = "gradients of @" + start.getGroup().str();
  if (failed(place({(*start.getOffsets())[1], group.gradients.shardBytes, last, start,
                    "the reduced " + name})))
    return failure();
  if (!group.isFlat())
    return place({sink->base, group.gradients.wholeBytes, sink->end, start, "the " + name});
  for (auto [param, gradient] : llvm::enumerate(start.getGrads()))
    if (failed(enterGradient(*sink, param, gradient, start)))
      return failure();
  return enterPadding(*sink, start);
}

LogicalResult Checker::enterGradient(const GradientSink &sink, unsigned param, Value gradient,
                                     Operation *owner) {
  const GroupInfo &group = *sink.group;
  int64_t begin = sink.base + group.getParamBegin(param, group.gradients);
  if (uses.isPlaced(sink, param, gradient))
    return success(); // live since it was made
  ParamOp op = group.params[param];
  return place({begin, group.getParamElements(param) * group.gradients.elementBytes, sink.end,
                owner, "the gradient of @" + op.getSymName().str()},
               /*isAligned=*/group.isFlat());
}

LogicalResult Checker::enterPadding(const GradientSink &sink, Operation *owner) {
  const GroupInfo &group = *sink.group;
  for (unsigned param = 0; param < group.params.size(); ++param) {
    int64_t begin = group.getParamBegin(param, group.gradients) +
                    group.getParamElements(param) * group.gradients.elementBytes;
    ParamOp op = group.params[param];
    if (failed(
            place({sink.base + begin, group.getParamEnd(param, group.gradients) - begin, sink.end,
                   owner, "the padding behind the gradient of @" + op.getSymName().str()},
                  /*isAligned=*/false)))
      return failure();
  }
  return success();
}

/// The starts of a bucket are one launch, that of the first.
template <typename StartT>
LogicalResult Checker::enterBucket(StartT start, LogicalResult (Checker::*enterStart)(StartT)) {
  if (start.getCoalesced())
    return success();
  do {
    if (failed((this->*enterStart)(start)))
      return failure();
    start = dyn_cast<StartT>(start->getNextNode());
  } while (start && start.getCoalesced());
  return success();
}

LogicalResult Checker::enter(Operation &op, int64_t position) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(&op)
      .Case([&](aten::CallOp call) -> LogicalResult {
        if (call.isView())
          return success();
        for (auto [i, value] : llvm::enumerate(call.getResults())) {
          int64_t index = storage.lookup(value);
          std::optional<int64_t> offset;
          if (call.getOffsets())
            offset = (*call.getOffsets())[i];
          if (failed(enterStorage(index, offset, index < 0 ? 0 : uses.getLast(index))))
            return failure();
        }
        return success();
      })
      .Case([&](AllGatherStartOp start) { return enterBucket(start, &Checker::enterGather); })
      .Case([&](AllGatherWaitOp wait) -> LogicalResult {
        Operation *start = wait.getHandle().getDefiningOp();
        for (auto [i, value] : llvm::enumerate(wait.getResults())) {
          int64_t index = storage.lookup(value);
          if (index == StepStorage::kNone ||
              storage.getStorages()[index].kind == Storage::Kind::Gathered)
            continue;
          if (!wait.getOffsets() || wait.getOffsets()->size() != wait.getNumResults())
            return missingOffset(wait);
          if (failed(enterStorage(index, (*wait.getOffsets())[i],
                                  std::max(uses.getLast(index), uses.getRelease(start)))))
            return failure();
        }
        return success();
      })
      .Case(
          [&](ReduceScatterStartOp start) { return enterBucket(start, &Checker::enterReduction); })
      .Case([&](GradOp grad) {
        std::optional<GradientSink> sink = uses.getSink(grad);
        if (!sink)
          return missingOffset(grad);
        return enterGradient(*sink, groups.lookupParam(grad.getParamAttr()).second, grad.getValue(),
                             grad);
      })
      .Case([&](FetchStateStartOp fetch) { return enterState(fetch); })
      .Case([&](SquareSumOp sum) { return enterSquareSum(sum); })
      .Case([&](UpdateOp update) { return enterUpdate(update, position); })
      .Default([](Operation *) { return success(); });
}

/// From the fetch to where the store is waited for.
LogicalResult Checker::enterState(FetchStateStartOp fetch) {
  const GroupInfo &group = groups.lookup(fetch.getGroupAttr());
  std::optional<int64_t> stored = uses.getStoreWait(fetch.getGroupAttr());
  if (!fetch.getOffsets() || fetch.getOffsets()->size() != numStates)
    return missingOffset(fetch);
  for (auto [i, offset] : llvm::enumerate(*fetch.getOffsets()))
    if (failed(
            place({offset, group.master.shardBytes, stored.value_or(uses.getEnd()), fetch,
                   "optimizer state " + std::to_string(i + 1) + " of @" + fetch.getGroup().str()})))
      return failure();
  return success();
}

/// On one rank the sum reads the gradients with the padding between them, before the updates do.
LogicalResult Checker::enterSquareSum(SquareSumOp sum) {
  int64_t index = storage.lookup(sum.getResult());
  if (failed(enterStorage(index, sum.getOffset(), uses.getLast(index))))
    return failure();
  if (groups.getRanks() == 1)
    for (const GroupInfo &group : groups.getGroups())
      if (UpdateOp update =
              uses.getUpdate(FlatSymbolRefAttr::get(GroupOp(group.op).getSymNameAttr()));
          update && update.getOffset() &&
          failed(enterPadding(
              {&group, static_cast<int64_t>(*update.getOffset()), uses.getPosition(update)}, sum)))
        return failure();
  return success();
}

LogicalResult Checker::enterUpdate(UpdateOp update, int64_t position) {
  if (!groups.isGroup(update.getTargetAttr()) || !update.getOffset())
    return missingOffset(update);
  const GroupInfo &group = groups.lookup(update.getTargetAttr());
  if (groups.getRanks() == 1)
    return update.getClip()
               ? success() // the padding is there since the gradients' squares were summed
               : enterPadding({&group, static_cast<int64_t>(*update.getOffset()), position},
                              update);
  ReduceScatterStartOp reduction = uses.getReduction(update.getTargetAttr());
  if (!reduction || !reduction.getOffsets())
    return missingOffset(update);
  int64_t reduced = (*reduction.getOffsets())[1];
  if (static_cast<int64_t>(*update.getOffset()) == reduced)
    return success();
  InFlightDiagnostic diag = update.emitOpError("P1: reads gradients at byte ")
                            << *update.getOffset() << ", but they are reduced to byte " << reduced;
  diag.attachNote(reduction.getLoc()) << "reduced here";
  return diag;
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

LogicalResult Checker::run() {
  if (failed(enterDeclarations()))
    return failure();
  int64_t position = 0;
  for (Operation &op : step.getBody().front()) {
    occupied.advance(position);
    if (failed(enter(op, position)))
      return failure();
    ++position;
  }
  return success();
}

namespace {
struct VerifyPlannedPass : public fsdp::impl::VerifyPlannedBase<VerifyPlannedPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<func::FuncOp> step = getStep(module, ModulePhase::Planned);
    if (failed(step))
      return signalPassFailure();
    auto arena = module->getAttrOfType<IntegerAttr>(FsdpDialect::getArenaAttrName());
    if (!arena) {
      module.emitError("P1: lacks the attribute '") << FsdpDialect::getArenaAttrName() << "'";
      return signalPassFailure();
    }
    FailureOr<GroupTable> groups = GroupTable::build(module);
    if (failed(groups))
      return signalPassFailure();
    FailureOr<StepStorage> storage = StepStorage::build(*step, *groups);
    if (failed(storage))
      return signalPassFailure();
    FailureOr<Step> declared = Step::collect(module);
    if (failed(declared) || failed(checkClipping(*declared)) ||
        failed(checkStateCopies(*declared)) || failed(checkHostPlaces(module, *groups)) ||
        failed(Checker(module, *step, *groups, *storage, arena.getInt()).run()) ||
        failed(checkOverwrites(*step, *groups, *storage)))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
