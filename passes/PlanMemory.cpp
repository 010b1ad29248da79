//===- PlanMemory.cpp - Offsets in the arena for every buffer -------------===//

#include "fsdp/Analysis/HostPlaces.h"
#include "fsdp/Analysis/Program.h"
#include "fsdp/Analysis/Step.h"
#include "fsdp/Analysis/StepMemory.h"
#include "fsdp/CostModel/Temporaries.h"
#include "fsdp/Transforms/CapRefusal.h"
#include "fsdp/Transforms/ScheduleSearch.h"
#include "mlir/IR/Remarks.h"
#include "passes/Passes.h"

namespace fsdp {
#define GEN_PASS_DEF_PLANMEMORY
#include "passes/Passes.h.inc"
} // namespace fsdp

#define DEBUG_TYPE "fsdp-plan-memory"

using namespace mlir;
using namespace fsdp;

namespace {
/// The buffers of all steps of a program, as if the steps ran one after another: a step may
/// overwrite the buffers of the steps before, except state and constants, which live throughout.
struct ProgramBuffers {
  explicit ProgramBuffers(ArrayRef<StepMemory> steps);

  /// If the arena of all steps exceeds `capBytes`, the arenas of the steps alone, which their
  /// searches have seen within the cap, are filled up with the buffers of the other steps. No cap
  /// if it is not positive.
  plan::ArenaPlan plan(ArrayRef<StepMemory> steps, int64_t capBytes) const;

  std::vector<LiveRange> ranges;
  SmallVector<std::vector<size_t>> rangeOf; // for each step and each range of the step
};
} // namespace

/// The name of the shared state that the buffer holds; null if it holds none.
static StringAttr getSharedName(const LiveRange &range) {
  if (auto group = dyn_cast<GroupOp>(range.owner))
    return group.getSymNameAttr();
  if (auto buffer = dyn_cast<BufferOp>(range.owner))
    return buffer.getSymNameAttr();
  return {};
}

ProgramBuffers::ProgramBuffers(ArrayRef<StepMemory> steps) {
  int64_t total = 0, base = 0;
  for (const StepMemory &step : steps)
    total += step.ranges.getNumPositions();
  DenseMap<std::tuple<StringAttr, BufferCategory, unsigned>, size_t> shared;
  for (const StepMemory &step : steps) {
    std::vector<size_t> &own = rangeOf.emplace_back();
    auto firstBundle = static_cast<int64_t>(ranges.size());
    for (LiveRange range : step.ranges.getRanges()) {
      StringAttr name = getSharedName(range);
      size_t index = ranges.size();
      if (name)
        index = shared.try_emplace({name, range.category, range.index}, index).first->second;
      own.push_back(index);
      if (index < ranges.size())
        continue;
      bool isKept = name || range.category == BufferCategory::Constant;
      range.first = isKept ? 0 : range.first + base;
      range.last = isKept ? total - 1 : range.last + base;
      if (range.bundle >= 0)
        range.bundle += firstBundle;
      ranges.push_back(range);
    }
    base += step.ranges.getNumPositions();
  }
}

plan::ArenaPlan ProgramBuffers::plan(ArrayRef<StepMemory> steps, int64_t capBytes) const {
  plan::ArenaPlan best = planArena(ranges);
  if (steps.size() == 1 || capBytes <= 0)
    return best;
  for (auto [step, own] : llvm::zip_equal(steps, rangeOf)) {
    if (best.arenaBytes <= capBytes)
      break;
    std::vector<int64_t> known(ranges.size(), -1);
    for (auto [range, offset] : llvm::zip_equal(own, planArena(step.ranges.getRanges()).offsets))
      known[range] = offset;
    plan::ArenaPlan filled = fillArena(ranges, known);
    if (filled.arenaBytes < best.arenaBytes)
      best = std::move(filled);
  }
  return best;
}

/// The values of a step that wait on the host, and their offsets after the state that is kept
/// there.
struct HostValues {
  explicit HostValues(const StepMemory &memory)
      : values(collectStoredValues(memory.getBody(), memory.groups)) {
    std::vector<plan::BufferRange> ranges;
    for (const StoredValue &value : values)
      ranges.push_back({value.bytes, value.first, value.last});
    arena = plan::planArena(ranges);
  }

  SmallVector<StoredValue> values;
  plan::ArenaPlan arena;
};

/// Writes the offsets of each group's shard, optimizer states and copy for gathers. State on the
/// host is live throughout, so its parts follow each other. Returns the bytes on the host.
static int64_t writePlaces(ModuleOp module, const StepMemory &memory,
                           function_ref<int64_t(size_t)> toOffset) {
  int64_t hostBytes = 0;
  for (const GroupInfo &group : memory.groups.getGroups()) {
    GroupOp op = group.op;
    const KeptRanges &kept = memory.ranges.getKept(group);
    std::optional<int64_t> shard, copy, hostShard, hostCopy;
    if (kept.shard)
      shard = toOffset(*kept.shard);
    if (kept.copy)
      copy = toOffset(*kept.copy);
    SmallVector<int64_t> hostStates;
    for (const HostPart &part : group.getHostParts()) {
      if (part.category == BufferCategory::OptimizerState)
        hostStates.push_back(hostBytes);
      else
        (part.index == 0 ? hostShard : hostCopy) = hostBytes;
      hostBytes += plan::alignToArena(part.bytes);
    }
    op.setPlacesAttr(PlacesAttr::get(module.getContext(), shard,
                                     llvm::map_to_vector(kept.states, toOffset), copy, hostShard,
                                     hostStates, hostCopy));
  }
  return hostBytes;
}

/// Writes the offsets of gradients, activations and chunks that wait on the host, after the
/// `keptBytes` of state that stays there between steps. The steps of a program share the host's
/// arena: `waitingBytes` is the need of the largest step.
static void writeHostArena(ModuleOp module, const HostValues &own, int64_t keptBytes,
                           int64_t waitingBytes) {
  for (auto [value, offset] : llvm::zip_equal(own.values, own.arena.offsets))
    setPlaces(value.store, keptBytes + offset);
  if (keptBytes + waitingBytes > 0)
    module->setAttr(FsdpDialect::getHostArenaAttrName(),
                    Builder(module.getContext()).getI64IntegerAttr(keptBytes + waitingBytes));
}

/// True for an operation that makes buffers in the arena. Other operations yield parts of existing
/// buffers, for example of a flat gather.
static bool makesBuffers(StepOpInterface op, const StepStorage &storage) {
  auto isPart = [&](OpResult value) {
    int64_t index = storage.lookup(value);
    return index != StepStorage::kNone && storage.getStorages()[index].whole != StepStorage::kNone;
  };
  auto isMade = [&](OpResult value) { return op.getMadeCategory(value).has_value(); };
  return op.getRole() == StepRole::Compute ||
         (llvm::any_of(op->getResults(), isMade) && llvm::none_of(op->getResults(), isPart));
}

/// Writes every buffer's offset into the module, and sets the phase planned.
static void writeOffsets(ModuleOp module, const StepMemory &memory, ArrayRef<size_t> rangeOf,
                         const plan::ArenaPlan &arena, const HostValues &host,
                         int64_t hostWaitingBytes) {
  const LiveRanges &ranges = memory.ranges;
  Builder builder(module.getContext());
  auto toOffset = [&](size_t range) { return arena.offsets[rangeOf[range]]; };
  writeHostArena(module, host, writePlaces(module, memory, toOffset), hostWaitingBytes);
  for (auto buffer : module.getOps<BufferOp>())
    buffer.setOffset(toOffset(ranges.lookup(buffer).front()));
  for (Operation &op : memory.getBody()) {
    auto inStep = dyn_cast<StepOpInterface>(op);
    if (!inStep || !hasPlaces(&op) || !makesBuffers(inStep, memory.storage))
      continue;
    SmallVector<int64_t> places = llvm::map_to_vector(ranges.lookup(&op), toOffset);
    if (!inStep.getPacked().empty()) {
      // The offset of the packed gradients is that of the first; after it comes the offset of the
      // buffer that the start makes.
      const int64_t made = places.back();
      places.truncate(1);
      if (getStartedHandle(op))
        places.push_back(made);
    } else if (places.empty()) {
      for (Value value : op.getResults()) {
        int64_t index = memory.storage.lookup(value);
        // An unused computed result has no buffer; an empty tensor may have any offset.
        places.push_back(index != StepStorage::kNone             ? toOffset(ranges.lookup(index))
                         : inStep.getRole() == StepRole::Compute ? -1
                                                                 : 0);
      }
    }
    setPlaces(&op, places);
  }
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
    SmallVector<ModuleOp> steps = getSteps(module);
    if (isProgram(module) && failed(checkSharedState(module)))
      return signalPassFailure();
    std::vector<StepMemory> memories;
    for (ModuleOp step : steps) {
      FailureOr<StepMemory> memory = StepMemory::build(step, ModulePhase::Scheduled);
      if (failed(memory))
        return signalPassFailure();
      memories.push_back(std::move(*memory));
    }
    ProgramBuffers buffers(memories);
    FailureOr<int64_t> cap = parseSizeOption(module, "memory-cap", memoryCap);
    if (failed(cap))
      return signalPassFailure();
    int64_t scratchBytes = 0; // beside the arena
    if (*cap > 0 && !profile.empty()) {
      FailureOr<std::shared_ptr<cost::CostModel>> costs = loadCosts(module, {.profile = profile});
      if (failed(costs))
        return signalPassFailure();
      for (ModuleOp step : steps)
        scratchBytes += cost::findTemporaries(step, **costs).scratchBytes;
    }
    plan::ArenaPlan arena = buffers.plan(memories, *cap - scratchBytes);
    if (*cap > 0 && arena.arenaBytes + scratchBytes > *cap) {
      InFlightDiagnostic diag = module.emitError("the step needs an arena of ")
                                << arena.arenaBytes << " bytes";
      if (scratchBytes > 0)
        diag << " and " << scratchBytes << " bytes for temporaries inside operators";
      diag << ", more than the memory cap of " << *cap << " bytes; at least " << arena.peakLiveBytes
           << " bytes are live at once";
      attachRefusal(*diag.getUnderlyingDiagnostic(),
                    {.leastBytes = arena.peakLiveBytes + scratchBytes,
                     .enoughBytes = arena.arenaBytes + scratchBytes});
      return signalPassFailure();
    }
    SmallVector<HostValues> hosts;
    int64_t hostWaitingBytes = 0;
    for (const StepMemory &memory : memories)
      hostWaitingBytes = std::max(hostWaitingBytes, hosts.emplace_back(memory).arena.arenaBytes);
    for (auto [step, memory, rangeOf, host] :
         llvm::zip_equal(steps, memories, buffers.rangeOf, hosts))
      writeOffsets(step, memory, rangeOf, arena, host, hostWaitingBytes);
    if (isProgram(module)) {
      setPhase(module, ModulePhase::Planned);
      for (StringRef name : {FsdpDialect::getArenaAttrName(), FsdpDialect::getPeakAttrName()})
        module->setAttr(name, steps.front()->getAttr(name));
    }
    double ratio = arena.peakLiveBytes == 0
                       ? 1.0
                       : static_cast<double>(arena.arenaBytes) / arena.peakLiveBytes;
    remark::analysis(module.getLoc(), remark::RemarkOpts::name("memory").category(DEBUG_TYPE))
        << remark::metric("ArenaBytes", arena.arenaBytes)
        << remark::metric("PeakLiveBytes", arena.peakLiveBytes)
        << remark::metric("ArenaOverPeak", ratio)
        << remark::metric("GradientsPlaced", memories.front().ranges.numPlaced)
        << remark::metric("GradientsCopied", memories.front().ranges.numCopied)
        << remark::metric("GradientBytesCopied", memories.front().ranges.bytesCopied);
  }
};
} // namespace
