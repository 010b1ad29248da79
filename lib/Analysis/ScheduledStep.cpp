//===- ScheduledStep.cpp - The plan that a scheduled step follows ---------===//

#include "fsdp/Analysis/ScheduleProblem.h"

#include "StateCopySchedule.h"
#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>
#include <numeric>

using namespace mlir;
using namespace fsdp;

namespace {

/// The order of events at one position of a problem. A gather's wait may stand on either side of
/// the next gather's start: on one lane that makes no difference.
enum class EventOrder { None, StoreWait, Release, ReductionWait, Reduction, Gather, Fetch };

class StepReader {
public:
  StepReader(ModuleOp module, const StepMemory &memory, const cost::CostModel &costs)
      : memory(memory), costs(costs), builder(module, memory, costs),
        endsAt(memory.ranges.getNumPositions()) {}

  FailureOr<ScheduledStep> build();

private:
  struct Gather {
    AllGatherStartOp start;
    uint32_t group, launch, bucket;
    uint32_t wait = 0, last = UINT32_MAX;
    /// The last operation of the forward and the first of the backward that read it.
    std::optional<uint32_t> lastForward = {}, firstBackward = {};
  };
  struct Reduction {
    ReduceScatterStartOp start;
    uint32_t group, launch, bucket;
    uint32_t wait = 0;
    int64_t waitPosition = 0;
    std::optional<uint32_t> update = {};
  };

  uint32_t getNumOperations() const { return result.operations.size(); }
  uint32_t indexOf(FlatSymbolRefAttr group) const { return memory.groups.lookup(group).index; }
  const LiveRange &getRange(size_t index) const { return memory.ranges.getRanges()[index]; }

  void addOperation(Operation *op, int64_t copiedBytes = 0) {
    builder.add(op, copiedBytes);
    order = EventOrder::None;
  }
  /// An event of this kind follows; a pause lets it come after later kinds.
  void enter(EventOrder next) {
    if (next < order)
      addOperation(nullptr);
    order = next;
  }
  void read(Operation &op);
  void noteReaders(aten::CallOp call);
  bool isInBucket(const Reduction &reduction) const;
  int64_t getCopiedBytes(ArrayRef<size_t> parts) const;
  void visit(AllGatherStartOp start);
  void visit(ReduceScatterStartOp start);
  void visit(ReduceScatterWaitOp wait);
  void visit(ReleaseOp release);
  void visit(GradOp grad);
  void visit(FetchStateStartOp fetch);
  void visit(StoreStateWaitOp wait);
  void addRanges();
  void addUses();
  void splitBuckets();
  LogicalResult addReductions();

  const StepMemory &memory;
  const cost::CostModel &costs;
  ProblemBuilder builder;
  ScheduledStep result;
  std::vector<uint8_t> endsAt; // by position: a range of the problem's operations ends here
  /// By position: the last operation that is not behind it.
  std::vector<uint32_t> operationAt;
  std::vector<uint32_t> lastReader; // by storage: the last operation that touches it
  int64_t position = 0;
  EventOrder order = EventOrder::None;
  std::vector<Gather> gathers;
  std::vector<Reduction> reductions;
  DenseMap<Operation *, size_t> gatherOf, reductionOf;        // by start
  DenseMap<StringAttr, size_t> reductionOfGroup, stateCopyOf; // by group
  uint32_t numGatherBuckets = 0, numReductionBuckets = 0;
  std::optional<uint32_t> squareSum;   // it reads all reduced gradients, before their updates
  std::vector<uint32_t> splitBucketOf; // by reduction
};

} // namespace

/// True for what `liveBytes` holds; the problem knows the others by themselves.
static bool isOwn(const LiveRange &range) {
  return range.category != BufferCategory::Gathered &&
         range.category != BufferCategory::ReducedShard;
}

//===----------------------------------------------------------------------===//
// Read
//===----------------------------------------------------------------------===//

int64_t StepReader::getCopiedBytes(ArrayRef<size_t> parts) const {
  int64_t bytes = 0;
  for (size_t part : parts)
    if (getRange(part).storage == StepStorage::kNone)
      bytes += getRange(part).bytes;
  return bytes;
}

void StepReader::visit(AllGatherStartOp start) {
  enter(EventOrder::Gather);
  if (!start.getCoalesced())
    ++numGatherBuckets;
  gatherOf[start] = gathers.size();
  gathers.push_back(
      {start, indexOf(start.getGroupAttr()), getNumOperations(), numGatherBuckets - 1});
}

void StepReader::visit(ReduceScatterStartOp start) {
  if (!start.getCoalesced()) {
    // The inputs of the whole bucket are made before its first start.
    int64_t copiedBytes = 0;
    ReduceScatterStartOp member = start;
    do {
      copiedBytes += getCopiedBytes(memory.ranges.lookup(member).drop_back());
      member = dyn_cast<ReduceScatterStartOp>(member->getNextNode());
    } while (member && member.getCoalesced());
    if (copiedBytes > 0)
      addOperation(start, copiedBytes);
    ++numReductionBuckets;
  }
  enter(EventOrder::Reduction);
  reductionOf[start] = reductionOfGroup[start.getGroupAttr().getAttr()] = reductions.size();
  reductions.push_back(
      {start, indexOf(start.getGroupAttr()), getNumOperations(), numReductionBuckets - 1});
}

/// True if it is launched together with others, which have been read as well.
bool StepReader::isInBucket(const Reduction &reduction) const {
  size_t index = &reduction - reductions.data();
  auto isOther = [&](size_t other) {
    return other < reductions.size() && reductions[other].bucket == reduction.bucket;
  };
  return isOther(index + 1) || (index > 0 && isOther(index - 1));
}

void StepReader::visit(ReduceScatterWaitOp wait) {
  Reduction &reduction = reductions[reductionOf.lookup(wait.getHandle().getDefiningOp())];
  bool isLaunchedHere = reduction.launch == getNumOperations();
  if (isLaunchedHere && isInBucket(reduction)) {
    // Its members may be waited for one by one, but are all there from the launch on.
    addOperation(nullptr);
    isLaunchedHere = false;
  }
  enter(isLaunchedHere ? EventOrder::Reduction : EventOrder::ReductionWait);
  reduction.wait = getNumOperations();
  reduction.waitPosition = position;
  // A gradient that is read later outlives the problem's reduction.
  for (size_t part : memory.ranges.lookup(reduction.start).drop_back())
    if (getRange(part).last > position) {
      addOperation(nullptr);
      return;
    }
}

void StepReader::visit(ReleaseOp release) {
  Gather &gather = gathers[gatherOf.lookup(release.getHandle().getDefiningOp())];
  enter(EventOrder::Release);
  if (gather.wait == getNumOperations())
    addOperation(nullptr); // nothing runs while it is gathered
  gather.last = getNumOperations() - 1;
}

void StepReader::visit(GradOp grad) {
  // On one rank the update reads what is copied here.
  auto [group, param] = memory.groups.lookupParam(grad.getParamAttr());
  GroupOp op = group->op;
  UpdateOp update = memory.ranges.getUpdate(FlatSymbolRefAttr::get(op.getSymNameAttr()));
  size_t part = memory.ranges.lookup(update)[param];
  if (int64_t bytes = getCopiedBytes(part); bytes > 0)
    addOperation(grad, bytes);
}

void StepReader::visit(FetchStateStartOp fetch) {
  enter(EventOrder::Fetch);
  result.stateCopies[stateCopyOf.lookup(fetch.getGroupAttr().getAttr())].fetchLaunch =
      getNumOperations();
}

void StepReader::visit(StoreStateWaitOp wait) {
  enter(EventOrder::StoreWait);
  auto store = wait.getHandle().getDefiningOp<StoreStateStartOp>();
  result.stateCopies[stateCopyOf.lookup(store.getGroupAttr().getAttr())].storeWait =
      getNumOperations();
}

void StepReader::noteReaders(aten::CallOp call) {
  for (Value operand : call.getOperands()) {
    int64_t index = memory.storage.lookup(operand);
    if (index == StepStorage::kNone ||
        memory.storage.getStorages()[index].kind != Storage::Kind::Gathered)
      continue;
    auto wait = cast<AllGatherWaitOp>(memory.storage.getStorages()[index].owner);
    Gather &gather = gathers[gatherOf.lookup(wait.getHandle().getDefiningOp())];
    if (call.getPhase() == aten::Phase::Forward)
      gather.lastForward = getNumOperations();
    else if (!gather.firstBackward)
      gather.firstBackward = getNumOperations();
  }
}

void StepReader::read(Operation &op) {
  if (isOperation(op)) {
    if (auto call = dyn_cast<aten::CallOp>(op))
      noteReaders(call);
    else if (isa<SquareSumOp>(op))
      squareSum = getNumOperations();
    else if (auto update = dyn_cast<UpdateOp>(op))
      if (auto found = reductionOfGroup.find(update.getTargetAttr().getAttr());
          found != reductionOfGroup.end())
        reductions[found->second].update = getNumOperations();
    addOperation(&op);
    return;
  }
  llvm::TypeSwitch<Operation *>(&op)
      .Case<AllGatherStartOp, ReduceScatterStartOp, ReduceScatterWaitOp, ReleaseOp, GradOp,
            FetchStateStartOp, StoreStateWaitOp>([&](auto event) { visit(event); })
      .Case([&](FetchStateWaitOp wait) {
        auto fetch = wait.getHandle().getDefiningOp<FetchStateStartOp>();
        result.stateCopies[stateCopyOf.lookup(fetch.getGroupAttr().getAttr())].fetchWait =
            getNumOperations();
      })
      .Case([&](StoreStateStartOp store) {
        result.stateCopies[stateCopyOf.lookup(store.getGroupAttr().getAttr())].storeLaunch =
            getNumOperations();
      })
      .Case([&](AllGatherWaitOp wait) {
        enter(EventOrder::Gather);
        gathers[gatherOf.lookup(wait.getHandle().getDefiningOp())].wait = getNumOperations();
      })
      .Default([&](Operation *) {
        // A view that something is kept for until here, behind events at this position.
        if (endsAt[position] && order != EventOrder::None)
          addOperation(nullptr);
      });
}

//===----------------------------------------------------------------------===//
// Write
//===----------------------------------------------------------------------===//

void StepReader::addRanges() {
  DenseMap<size_t, const Reduction *> reductionOfPart;
  for (const Reduction &reduction : reductions)
    for (size_t part : memory.ranges.lookup(reduction.start).drop_back())
      reductionOfPart[part] = &reduction;
  uint32_t last = getNumOperations() - 1;
  for (auto [index, range] : llvm::enumerate(memory.ranges.getRanges())) {
    if (!isOwn(range) || reductionOfPart.contains(index) || isa<FetchStateStartOp>(range.owner))
      continue;
    bool isThroughout = range.first == 0 && range.last + 1 == memory.ranges.getNumPositions();
    builder.addRange(index, isThroughout ? 0 : operationAt[range.first],
                     isThroughout ? last : operationAt[range.last]);
  }
}

void StepReader::addUses() {
  struct Use {
    schedule::Use use;
    size_t gather;
    bool isKept;
  };
  std::vector<Use> uses;
  for (auto [index, gather] : llvm::enumerate(gathers)) {
    uint32_t last = std::min(gather.last, getNumOperations() - 1);
    bool isSplit = result.problem.groups[gather.group].keep == schedule::KeepRule::Free &&
                   gather.lastForward && gather.firstBackward &&
                   *gather.lastForward < *gather.firstBackward && *gather.firstBackward <= last;
    uint32_t firstEnd = isSplit ? *gather.lastForward : last;
    uses.push_back({{gather.group, gather.wait, firstEnd}, index, false});
    if (isSplit)
      uses.push_back({{gather.group, *gather.firstBackward, last}, index, true});
  }
  std::ranges::stable_sort(uses, {},
                           [](const Use &use) { return std::pair(use.use.first, use.use.last); });
  result.plan.gathers.resize(numGatherBuckets);
  for (auto [index, use] : llvm::enumerate(uses)) {
    const Gather &gather = gathers[use.gather];
    result.problem.uses.push_back(use.use);
    result.gathers.push_back(gather.start);
    result.plan.kept.push_back(use.isKept);
    if (use.isKept)
      continue;
    result.plan.gathers[gather.bucket].launch = gather.launch;
    result.plan.gathers[gather.bucket].uses.push_back(index);
  }
}

/// Members of a bucket that are waited for at different positions count as buckets of their own.
void StepReader::splitBuckets() {
  numReductionBuckets = 0;
  for (size_t first = 0, end; first < reductions.size(); first = end) {
    end = first + 1;
    while (end < reductions.size() && reductions[end].bucket == reductions[first].bucket)
      ++end;
    bool isOne = std::all_of(reductions.begin() + first, reductions.begin() + end,
                             [&](const Reduction &r) { return r.wait == reductions[first].wait; });
    for (size_t i = first; i < end; ++i) {
      numReductionBuckets += i == first || !isOne;
      splitBucketOf.push_back(numReductionBuckets - 1);
    }
  }
}

LogicalResult StepReader::addReductions() {
  splitBuckets();
  std::vector<uint32_t> ready(reductions.size(), 0);
  for (auto [index, reduction] : llvm::enumerate(reductions)) {
    if (index > 0 && reduction.wait < reductions[index - 1].wait) {
      Reduction &earlier = reductions[index - 1];
      InFlightDiagnostic diag = reduction.start.emitOpError("of ")
                                << reduction.start.getGroupAttr()
                                << " is waited for before that of " << earlier.start.getGroupAttr()
                                << ", which is started earlier";
      diag.attachNote(earlier.start.getLoc()) << "started here";
      return diag;
    }
    if (!reduction.update)
      return reduction.start.emitOpError("of ")
             << reduction.start.getGroupAttr() << " is followed by no update of the group";
    ArrayRef<size_t> both = memory.ranges.lookup(reduction.start);
    for (size_t part : both.drop_back()) {
      const LiveRange &range = getRange(part);
      bool isHere = range.storage == StepStorage::kNone;
      uint32_t last = isHere ? operationAt[range.first] : lastReader[range.storage];
      ready[index] = std::max(ready[index], std::min(last + 1, reduction.launch));
    }
    for (size_t part : both.drop_back()) {
      const LiveRange &range = getRange(part);
      builder.addRange(part, operationAt[range.first], ready[index] - 1);
      if (range.last > reduction.waitPosition)
        builder.addRange(part, reduction.wait, operationAt[range.last]);
    }
    // While gradients are copied, the shard that they will be reduced to is there already.
    uint32_t copy = operationAt[getRange(both.back()).first];
    if (isa_and_nonnull<ReduceScatterStartOp>(result.operations[copy]) &&
        copy + 1 == reduction.launch)
      builder.addRange(both.back(), copy, copy);
    if (squareSum)
      builder.addRange(both.back(), *squareSum + 1, *reduction.update);
  }

  std::vector<size_t> sorted(reductions.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  std::ranges::stable_sort(sorted, {},
                           [&](size_t i) { return std::pair(ready[i], *reductions[i].update); });
  result.plan.reductions.resize(numReductionBuckets);
  for (auto [index, number] : llvm::enumerate(sorted)) {
    const Reduction &reduction = reductions[number];
    result.problem.reductions.push_back(
        {reduction.group, ready[number], squareSum.value_or(*reduction.update),
         builder.getInputBytes(reduction.start), builder.getOutputBytes(reduction.start)});
    result.reductions.push_back(reduction.start);
    schedule::ReductionBucket &bucket = result.plan.reductions[splitBucketOf[number]];
    bucket.reductions.push_back(index);
    bucket.launch = reduction.launch;
    bucket.wait = reduction.wait;
    ReduceScatterStartOp start = reduction.start;
    result.plan.shareLane |= start.getStream() == Stream::Gather;
  }
  return success();
}

FailureOr<ScheduledStep> StepReader::build() {
  if (failed(builder.begin(result)))
    return failure();
  for (const LiveRange &range : memory.ranges.getRanges())
    if (isOwn(range) && range.category != BufferCategory::Gradient &&
        (range.first != 0 || range.last + 1 != memory.ranges.getNumPositions()))
      endsAt[range.last] = true;
  for (const StateCopy &copy : collectStateCopies(memory.getBody())) {
    UpdateOp update = copy.update;
    stateCopyOf[update.getTargetAttr().getAttr()] = result.stateCopies.size();
    result.stateCopies.push_back({copy, 0, 0, 0, 0});
  }
  operationAt.assign(memory.ranges.getNumPositions(), 0);
  lastReader.assign(memory.storage.getStorages().size(), 0);
  for (Operation &op : memory.getBody()) {
    read(op);
    uint32_t last = operationAt[position] = std::max<uint32_t>(getNumOperations(), 1) - 1;
    auto touch = [&](Value value) {
      if (int64_t index = memory.storage.lookup(value); index != StepStorage::kNone)
        lastReader[index] = last;
    };
    if (!isa<ReduceScatterStartOp>(op)) {
      llvm::for_each(op.getOperands(), touch);
      llvm::for_each(op.getResults(), touch);
    }
    ++position;
  }
  // Every event is at an operation's position.
  if (getNumOperations() == 0 || order > EventOrder::Release)
    addOperation(nullptr);
  addRanges();
  addUses();
  if (failed(addReductions()))
    return failure();
  addStateRanges(result, memory);
  builder.finish();
  chargeStateCopies(result, memory, costs);
  return std::move(result);
}

FailureOr<ScheduledStep> fsdp::getScheduledStep(ModuleOp module, const StepMemory &memory,
                                                const cost::CostModel &costs) {
  return StepReader(module, memory, costs).build();
}
