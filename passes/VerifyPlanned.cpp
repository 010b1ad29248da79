//===- VerifyPlanned.cpp - Proves that live buffers do not overlap --------===//
//
// Walks the program once, forward. The storages that an operation makes are entered into a map of
// occupied bytes, where their bytes must be free; they are removed after their last use.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"

#include "fsdp/Analysis/GroupTable.h"
#include "fsdp/Analysis/HostPlaces.h"
#include "fsdp/Analysis/Overwrites.h"
#include "fsdp/Analysis/PlannedUses.h"
#include "fsdp/Analysis/Program.h"
#include "fsdp/Analysis/ScheduleChecks.h"
#include "fsdp/Analysis/StepStorage.h"
#include "fsdp/IR/TensorLayout.h"
#include "fsdp/Plan/ArenaPlanner.h"
#include "fsdp/Plan/OccupiedBytes.h"

#include <optional>

namespace fsdp {
#define GEN_PASS_DEF_VERIFYPLANNED
#include "passes/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

/// A buffer at the offset in the module.
struct Placed {
  int64_t begin, bytes;
  int64_t last; // position of the last use
  Operation *owner;
  std::string name;
};

class Checker {
public:
  /// `others`: the program's other steps, whose constants are in the arena, too.
  Checker(ModuleOp module, func::FuncOp step, GroupTable &groups, StepStorage &storage,
          int64_t arenaBytes, ArrayRef<ModuleOp> others)
      : module(module), step(step), groups(groups), storage(storage), arenaBytes(arenaBytes),
        others(others), uses(step, groups, storage) {}

  LogicalResult run();

private:
  /// Occupies the buffer's bytes, or diagnoses its offset at its owner.
  LogicalResult place(Placed placed, bool isAligned = true);
  LogicalResult enterDeclarations();
  LogicalResult enterConstantsOfOthers();
  LogicalResult enter(Operation &op);
  /// Enters the buffers that the operation makes, and the gradients that it packs.
  LogicalResult enterMade(Operation &op);
  LogicalResult enterStorage(int64_t index, std::optional<int64_t> offset, int64_t last);
  LogicalResult enterPacked(StepOpInterface op);
  LogicalResult enterPadding(const GradientSink &sink, Operation *owner);
  LogicalResult enterState(FetchStateStartOp fetch, int64_t index);

  ModuleOp module;
  func::FuncOp step;
  GroupTable &groups;
  StepStorage &storage;
  int64_t arenaBytes;
  ArrayRef<ModuleOp> others;
  const PlannedUses uses;
  plan::OccupiedBytes occupied;
  std::vector<Placed> buffers; // all placed buffers
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
  if (placed.begin < 0 || placed.bytes > arenaBytes - placed.begin)
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

static bool isThereBefore(BufferCategory category) {
  return category == BufferCategory::Input || category == BufferCategory::Constant;
}

static LogicalResult missingOffset(Operation *op) {
  return op->emitOpError("P1: has a buffer without an arena offset");
}

LogicalResult Checker::enterDeclarations() {
  for (const GroupInfo &group : groups.getGroups()) {
    GroupOp op = group.op;
    if (std::optional<std::string> wrong = group.explainPlaces())
      return op.emitOpError("P1: @") << op.getSymName() << ' ' << *wrong;
    auto keep = [&](int64_t offset, const GroupForm &form, const Twine &what) {
      return place(
          {offset, form.shardBytes, uses.getEnd(), op, (what + " of @" + op.getSymName()).str()});
    };
    PlacesAttr places = op.getPlacesAttr();
    if (places.getShard() && failed(keep(*places.getShard(), group.master, "the shard")))
      return failure();
    for (auto [i, offset] : llvm::enumerate(places.getStates()))
      if (failed(keep(offset, group.states[i], "optimizer state " + Twine(i + 1))))
        return failure();
    if (places.getCopy() &&
        failed(keep(*places.getCopy(), group.gathered, "the copy that is gathered")))
      return failure();
  }
  for (auto buffer : module.getOps<BufferOp>()) {
    if (!buffer.getOffset())
      return missingOffset(buffer);
    if (failed(place({static_cast<int64_t>(*buffer.getOffset()),
                      getStorageBytes(cast<RankedTensorType>(buffer.getType())), uses.getEnd(),
                      buffer, "buffer @" + buffer.getSymName().str()})))
      return failure();
  }
  // Constants and inputs exist before the step begins.
  for (auto [index, item] : llvm::enumerate(storage.getStorages())) {
    if (isThereBefore(item.category) &&
        failed(enterStorage(index, getPlace(item.owner, 0, 1), uses.getEnd())))
      return failure();
  }
  return success();
}

/// Constants of other steps live throughout the program.
LogicalResult Checker::enterConstantsOfOthers() {
  for (ModuleOp other : others) {
    WalkResult walked = other.walk([&](aten::ConstantOp constant) -> WalkResult {
      if (!constant.getOffset())
        return missingOffset(constant);
      return place({static_cast<int64_t>(*constant.getOffset()),
                    getStorageBytes(cast<RankedTensorType>(constant.getType())), uses.getEnd(),
                    constant, "a constant of @" + other.getSymName()->str()});
    });
    if (walked.wasInterrupted())
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

/// The offset in the module of a result's buffer. In the attribute it follows the offset of the
/// gradients that a start packs.
static std::optional<int64_t> getOffset(OpResult result) {
  Operation *op = result.getOwner();
  const size_t packed = cast<StepOpInterface>(op).getPacked().empty() ? 0 : 1;
  return getPlace(op, packed + result.getResultNumber(), packed + op->getNumResults());
}

/// Enters the gradients in one buffer, and the padding between them.
LogicalResult Checker::enterPacked(StepOpInterface op) {
  std::optional<GradientSink> sink = uses.getSink(op);
  if (!sink)
    return missingOffset(op);
  const GroupInfo &group = *sink->group;
  if (std::optional<unsigned> param = uses.getOverwritten(op)) {
    ParamOp overwritten = group.params[*param];
    return op.emitOpError("P4: writes to the gradient of @")
           << overwritten.getSymName() << ", which is read later";
  }
  std::string name = "the gradients of @" + group.getName().getValue().str();
  if (!group.isFlat())
    return place({sink->base, group.gradients.wholeBytes, sink->end, op, name});
  for (auto [param, gradient] : llvm::enumerate(op.getPacked())) {
    if (uses.isPlaced(*sink, param, gradient))
      continue; // live since its definition
    int64_t begin = sink->base + group.getParamBegin(param, group.gradients);
    ParamOp declaration = group.params[param];
    if (failed(place({begin, group.getParamElements(param) * group.gradients.elementBytes,
                      sink->end, op, "the gradient of @" + declaration.getSymName().str()})))
      return failure();
  }
  return enterPadding(*sink, op);
}

LogicalResult Checker::enterPadding(const GradientSink &sink, Operation *owner) {
  const GroupInfo &group = *sink.group;
  for (unsigned param = 0; param < group.gradients.numParams; ++param) {
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

/// Enters the state's buffer, live from the fetch to the wait of the store.
LogicalResult Checker::enterState(FetchStateStartOp fetch, int64_t index) {
  std::vector<HostPart> parts = groups.lookup(fetch.getGroupAttr()).getHostParts();
  if (!fetch.getOffsets() || fetch.getOffsets()->size() != parts.size())
    return missingOffset(fetch);
  for (auto [part, offset] : llvm::zip_equal(parts, *fetch.getOffsets()))
    if (failed(place({offset, part.fetchedBytes, uses.getLast(index), fetch,
                      part.name + " of @" + fetch.getGroup().str()})))
      return failure();
  return success();
}

LogicalResult Checker::enterMade(Operation &op) {
  if (auto packs = dyn_cast<StepOpInterface>(op); packs && !packs.getPacked().empty())
    if (failed(enterPacked(packs)))
      return failure();
  for (OpResult result : op.getResults()) {
    int64_t index = storage.lookup(result);
    if (index == StepStorage::kNone)
      continue;
    const Storage &item = storage.getStorages()[index];
    // Packed gradients have been entered.
    bool isMade = item.owner == &op && !item.isDeclared && item.whole == StepStorage::kNone &&
                  !isThereBefore(item.category) && item.category != BufferCategory::Gradient;
    if (!isMade)
      continue;
    if (auto fetch = dyn_cast<FetchStateStartOp>(op)) {
      if (failed(enterState(fetch, index)))
        return failure();
    } else if (failed(enterStorage(index, getOffset(result), uses.getLast(index)))) {
      return failure();
    }
  }
  return success();
}

/// Enters the operation's buffers. The starts of a bucket are one launch, at the first start.
LogicalResult Checker::enter(Operation &op) {
  auto start = dyn_cast<CollectiveOpInterface>(op);
  if (!start)
    return enterMade(op);
  if (start.getCoalesced())
    return success();
  do {
    if (failed(enterMade(*start)))
      return failure();
    start = dyn_cast<CollectiveOpInterface>(start->getNextNode());
  } while (start && start.getCoalesced());
  return success();
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

LogicalResult Checker::run() {
  if (failed(enterDeclarations()) || failed(enterConstantsOfOthers()))
    return failure();
  int64_t position = 0;
  for (Operation &op : step.getBody().front()) {
    occupied.advance(position);
    if (failed(enter(op)))
      return failure();
    ++position;
  }
  return success();
}

static LogicalResult checkPlanned(ModuleOp module, ArrayRef<ModuleOp> others) {
  FailureOr<func::FuncOp> step = getStep(module, ModulePhase::Planned);
  if (failed(step))
    return failure();
  auto arena = module->getAttrOfType<IntegerAttr>(FsdpDialect::getArenaAttrName());
  if (!arena)
    return module.emitError("P1: lacks the attribute '") << FsdpDialect::getArenaAttrName() << "'";
  // First the properties that the tables below rely on.
  FailureOr<Step> declared = Step::collect(module);
  if (failed(declared) || failed(checkScheduled(*declared)))
    return failure();
  FailureOr<GroupTable> groups = GroupTable::build(module);
  if (failed(groups))
    return failure();
  FailureOr<StepStorage> storage = StepStorage::build(*step, *groups);
  if (failed(storage) || failed(checkHostPlaces(module, step->getBody().front(), *groups)) ||
      failed(Checker(module, *step, *groups, *storage, arena.getInt(), others).run()))
    return failure();
  return checkOverwrites(*step, *groups, *storage);
}

namespace {
struct VerifyPlannedPass : public fsdp::impl::VerifyPlannedBase<VerifyPlannedPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<ModuleOp> steps = getSteps(module);
    if (isProgram(module) && failed(checkSharedState(module)))
      return signalPassFailure();
    for (ModuleOp step : steps) {
      SmallVector<ModuleOp> others(steps);
      llvm::erase(others, step);
      if (failed(checkPlanned(step, others)))
        return signalPassFailure();
    }
    markAllAnalysesPreserved();
  }
};
} // namespace
