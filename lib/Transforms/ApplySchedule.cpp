//===- ApplySchedule.cpp - Applies a plan to a step -----------------------===//
//
// All positions are computed first; then each operation moves once, to the end of the block. No
// query about the order of operations happens in between.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Transforms/ApplySchedule.h"

#include "fsdp/Analysis/Step.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <tuple>

using namespace mlir;
using namespace fsdp;

namespace {

class Applier {
public:
  Applier(ModuleOp module, Block &body, const ScheduleProblem &problem, const schedule::Plan &plan)
      : module(module), body(body), problem(problem), plan(plan), uses(problem.gathers.size()) {}
  void run();

private:
  struct Use {
    AllGatherStartOp start;
    AllGatherWaitOp wait;
    ReshardOp reshard;
    ChunkOp chunk = {};      // made in this use
    StoreStartOp store = {}; // of the chunk; null: it stays in the arena
  };
  /// The chunks that gathers of a group take.
  struct Chunks {
    const schedule::Group *group;
    const schedule::Chunk *onDevice = nullptr, *onHost = nullptr;
  };
  /// An operation outside of the problem. It goes before the events of its position, or after them
  /// if it needs a gather or a fetch with a wait there.
  struct Other {
    uint32_t position;
    bool isBehind;
    Operation *op;
  };

  void collectUses();
  void keepCopies();
  void keepChunks();
  void recordChunks(GroupOp group, const Chunks &chunks);
  Value storeChunk(OpBuilder &builder, Use &use);
  void shareViews(AllGatherWaitOp wait, const DenseMap<Operation *, unsigned> &placeOf);
  void placeOthers();
  void listEvents();
  void listReshards();
  void listReductions();
  void launchAcross(const schedule::ReductionBucket &bucket);
  void listWaitsAcross();
  void listHostCopies();
  void arrange();

  ModuleOp module;
  Block &body;
  const ScheduleProblem &problem;
  const schedule::Plan &plan;
  std::vector<Use> uses;
  /// By position: the operation there; null for a pause, and for a copy by a start or a wait.
  std::vector<Operation *> operations;
  std::vector<Other> others;
  /// By position: its events, in order.
  std::vector<SmallVector<Operation *, 0>> events;
  /// By position: fetches from the host, after everything except views; stores, before everything.
  DenseMap<uint32_t, SmallVector<Operation *>> fetches, stores;
};

} // namespace

void Applier::collectUses() {
  for (auto [use, start] : llvm::zip_equal(uses, problem.gathers)) {
    use.start = start;
    use.wait = use.start.getWait();
    use.reshard = use.start.getReshard();
  }
}

//===----------------------------------------------------------------------===//
// Kept copies
//===----------------------------------------------------------------------===//

/// Replaces equal views of the gathered parameters, and views of these, by the first.
void Applier::shareViews(AllGatherWaitOp wait, const DenseMap<Operation *, unsigned> &placeOf) {
  using Key = std::tuple<const void *, const void *, const void *, const void *>;
  DenseMap<Key, aten::CallOp> known;
  SmallVector<Value> values(wait.getResults());
  for (size_t i = 0; i < values.size(); ++i) {
    SmallVector<aten::CallOp> views;
    for (OpOperand &operand : values[i].getUses())
      if (auto call = dyn_cast<aten::CallOp>(operand.getOwner());
          call && operand.getOperandNumber() == 0 && call.isView())
        views.push_back(call);
    llvm::sort(views, [&](aten::CallOp a, aten::CallOp b) {
      return placeOf.lookup(a) < placeOf.lookup(b);
    });
    for (aten::CallOp view : views) {
      Key key{view.getOperand(0).getAsOpaquePointer(), view.getCalleeAttr().getAsOpaquePointer(),
              view.getArgsAttr().getAsOpaquePointer(),
              view.getResult(0).getType().getAsOpaquePointer()};
      auto [found, isNew] = known.try_emplace(key, view);
      if (isNew) {
        llvm::append_range(values, view.getResults());
      } else if (found->second != view) {
        view->replaceAllUsesWith(found->second->getResults());
        view->erase();
      }
    }
  }
}

void Applier::keepCopies() {
  std::vector<int32_t> previous = problem.problem.previousUses();
  llvm::SmallSetVector<Operation *, 16> keepers;
  for (size_t i = 0; i < uses.size(); ++i) {
    if (!plan.kept[i])
      continue;
    Use &before = uses[previous[i]], &use = uses[i];
    use.wait->replaceAllUsesWith(before.wait->getResults());
    use.wait->erase();
    before.reshard->erase();
    use.reshard.getHandleMutable().assign(before.start.getHandle());
    use.start->erase();
    use.start = before.start;
    use.wait = before.wait;
    before.reshard = {};
    keepers.insert(use.wait);
  }
  if (keepers.empty())
    return;
  DenseMap<Operation *, unsigned> placeOf;
  for (auto [place, op] : llvm::enumerate(body))
    placeOf[&op] = place;
  for (Operation *wait : keepers)
    shareViews(cast<AllGatherWaitOp>(wait), placeOf);
}

//===----------------------------------------------------------------------===//
// Chunks
//===----------------------------------------------------------------------===//

/// Records on the group the number of ranks, and the reason.
void Applier::recordChunks(GroupOp group, const Chunks &chunks) {
  auto micros = [&](const schedule::CollectiveCost &cost) {
    return llvm::formatv("{0:f0} us", cost.durationNs(chunks.group->gatheredBytes) / 1e3).str();
  };
  const schedule::Chunk &chunk = chunks.onDevice ? *chunks.onDevice : *chunks.onHost;
  std::string reason = chunk.ranks == 1 ? "from the host, which has one rank, it takes "
                                        : "among the ranks of a host a gather takes ";
  reason += micros(chunk.gatherCost);
  if (chunks.onDevice && chunks.onHost)
    reason += ", with chunks from the host " + micros(chunks.onHost->gatherCost);
  reason += ", among all " + micros(problem.problem.meshOf(*chunks.group).gatherCost) +
            "; a chunk has " + std::to_string(chunk.bytes) + " bytes";
  if (chunks.onHost)
    reason +=
        chunks.onDevice ? " and waits on the host for some gathers" : " and waits on the host";
  group.setReshardRanks(chunk.ranks);
  group.setReason(Subject::ReshardRanks, reason);
}

/// Returns the chunk on the host.
Value Applier::storeChunk(OpBuilder &builder, Use &use) {
  const Location loc = use.chunk.getLoc();
  use.store = StoreStartOp::create(builder, loc, HandleType::get(module.getContext()),
                                   use.chunk.getResult(), /*offset=*/nullptr);
  auto stored = HostType::get(module.getContext(), use.chunk.getResult().getType());
  return StoreWaitOp::create(builder, loc, stored, use.store.getHandle()).getStored();
}

void Applier::keepChunks() {
  if (plan.chunked.empty())
    return;
  llvm::StringMap<GroupOp> groupByName;
  for (auto group : module.getOps<GroupOp>())
    groupByName[group.getSymName()] = group;
  llvm::MapVector<GroupOp, Chunks> chunksOf;
  std::vector<int32_t> previous = problem.problem.previousUses();
  OpBuilder builder(module.getContext());
  for (size_t i = 0; i < uses.size(); ++i) {
    if (!plan.chunked[i])
      continue;
    Use &before = uses[previous[i]], &use = uses[i];
    GroupOp group = groupByName.lookup(use.start.getGroup());
    const schedule::Chunk &chunk = problem.problem.chunkOf(i, plan.chunked[i]);
    Chunks &chunks = chunksOf[group];
    chunks.group = &problem.problem.groups[problem.problem.uses[i].group];
    (chunk.isOnHost ? chunks.onHost : chunks.onDevice) = &chunk;
    ShardType shard = use.start.getShardType();
    auto type =
        ShardType::get(module.getContext(), shard.getGroup(), shard.getElementType(), chunk.ranks);
    builder.setInsertionPoint(before.reshard);
    before.chunk = ChunkOp::create(builder, group.getLoc(), type, before.wait.getResults(),
                                   /*offset=*/nullptr);
    use.start.getShardMutable().assign(chunk.isOnHost ? storeChunk(builder, before)
                                                      : before.chunk.getResult());
  }
  for (auto &[group, chunks] : chunksOf)
    recordChunks(group, chunks);
}

//===----------------------------------------------------------------------===//
// Positions
//===----------------------------------------------------------------------===//

/// True for starts, waits and reshards, except the reduction of a tensor, which follows its
/// operand.
static bool isEvent(Operation &op) {
  if (isa<ReshardOp>(op))
    return true;
  Value handle = getStartedHandle(op) ? getStartedHandle(op) : getAwaitedHandle(op);
  if (!handle)
    return false;
  auto collective = dyn_cast<CollectiveOpInterface>(handle.getDefiningOp());
  return !collective || collective.getCollectiveGroup();
}

/// Views, reads and constants stay after the call that precedes them.
void Applier::placeOthers() {
  DenseMap<Operation *, uint32_t> indexOf;
  for (auto [index, op] : llvm::enumerate(operations))
    if (op)
      indexOf[op] = index;
  DenseMap<Operation *, uint32_t> positionOfWait;
  for (auto [use, planned] : llvm::zip_equal(uses, problem.problem.uses))
    positionOfWait.try_emplace(use.wait, planned.first);
  for (const ScheduledHostCopy &copy : problem.hostCopies)
    positionOfWait.try_emplace(copy.fetchWait, copy.fetchWaited);
  DenseMap<Operation *, uint32_t> positionOf; // of operations after events
  uint32_t position = 0;
  for (Operation &op : body) {
    if (isEvent(op) || op.hasTrait<OpTrait::IsTerminator>())
      continue;
    if (auto found = indexOf.find(&op); found != indexOf.end()) {
      if (!readsReduced(op))
        position = found->second + 1;
      continue;
    }
    auto inStep = dyn_cast<StepOpInterface>(op);
    const bool isAtBegin = inStep && inStep.getRole() == StepRole::Begin;
    Other other{isAtBegin ? 0 : position, false, &op};
    auto call = dyn_cast<aten::CallOp>(op);
    Operation *source =
        call && !call.getOperands().empty() ? call.getOperand(0).getDefiningOp() : nullptr;
    std::optional<uint32_t> needed;
    if (auto wait = positionOfWait.find(source); wait != positionOfWait.end())
      needed = wait->second;
    else if (auto behind = positionOf.find(source); behind != positionOf.end())
      needed = behind->second;
    if (needed && *needed >= position) {
      other.position = *needed;
      other.isBehind = true;
      positionOf[&op] = *needed;
    }
    others.push_back(other);
  }
  std::ranges::stable_sort(
      others, {}, [](const Other &other) { return std::pair(other.position, other.isBehind); });
}

void Applier::listReshards() {
  for (auto [use, planned] : llvm::zip_equal(uses, problem.problem.uses))
    if (use.store && planned.storedBy > planned.last)
      events[planned.storedBy + 1].push_back(use.store.getWait());
  for (auto [use, planned] : llvm::zip_equal(uses, problem.problem.uses)) {
    SmallVector<Operation *, 0> &behind = events[planned.last + 1];
    if (use.chunk)
      behind.push_back(use.chunk);
    if (use.store)
      behind.push_back(use.store);
    if (use.store && planned.storedBy <= planned.last)
      behind.push_back(use.store.getWait());
    if (use.reshard)
      behind.push_back(use.reshard);
  }
}

void Applier::listReductions() {
  auto waitFor = [&](const schedule::ReductionBucket &bucket) {
    for (uint32_t index : bucket.reductions) {
      ReduceScatterStartOp start = problem.reductions[index];
      events[bucket.wait].push_back(start.getWait());
    }
  };
  for (const schedule::ReductionBucket &bucket : plan.reductions)
    if (bucket.launch < bucket.wait)
      waitFor(bucket);
  for (const schedule::ReductionBucket &bucket : plan.reductions) {
    bool isFirst = true;
    for (uint32_t index : bucket.reductions) {
      ReduceScatterStartOp start = problem.reductions[index];
      start.setStream(plan.shareLane ? Stream::Gather : Stream::Reduce);
      start.setCoalesced(!isFirst);
      isFirst = false;
      events[bucket.launch].push_back(start);
    }
    launchAcross(bucket);
    if (bucket.launch == bucket.wait)
      waitFor(bucket);
  }
}

/// A bucket's all-reduces over replicas are launched together after it.
void Applier::launchAcross(const schedule::ReductionBucket &bucket) {
  bool isFirst = true;
  for (uint32_t index : bucket.reductions)
    if (AllReduceStartOp across = ReduceScatterStartOp(problem.reductions[index]).getAcross()) {
      across.setStream(Stream::Replicate);
      across.setCoalesced(!isFirst);
      isFirst = false;
      events[bucket.launch].push_back(across);
    }
}

/// The wait is the last event before the update that needs the shard: an earlier wait has no
/// benefit.
void Applier::listWaitsAcross() {
  for (auto [start, planned] : llvm::zip_equal(problem.reductions, problem.problem.reductions))
    if (AllReduceStartOp across = ReduceScatterStartOp(start).getAcross())
      events[planned.update].push_back(across.getWait());
}

void Applier::listHostCopies() {
  for (const HostCopyEvent &event : getEvents(problem.hostCopies)) {
    const ScheduledHostCopy &copy = problem.hostCopies[event.copy];
    switch (event.kind) {
    case HostCopyEventKind::StoreStart:
      stores[event.position].push_back(copy.store);
      break;
    case HostCopyEventKind::StoreWait:
      events[event.position].push_back(copy.storeWait);
      break;
    case HostCopyEventKind::FetchStart:
      fetches[event.position].push_back(copy.fetch);
      break;
    case HostCopyEventKind::FetchWait:
      fetches[event.position].push_back(copy.fetchWait);
      break;
    }
  }
}

/// Lists events by kind, in the problem's order at one position.
void Applier::listEvents() {
  events.resize(problem.operations.size() + 1);
  listHostCopies();
  listReshards();
  listReductions();
  for (const schedule::GatherBucket &bucket : plan.gathers) {
    bool isFirst = true;
    for (uint32_t index : bucket.uses) {
      AllGatherStartOp start = uses[index].start;
      start.setStream(Stream::Gather);
      start.setTransport(bucket.byCopyEngine ? Transport::CopyEngine : Transport::Kernels);
      start.setCoalesced(!isFirst);
      isFirst = false;
      events[bucket.launch].push_back(start);
    }
  }
  for (auto [index, planned] : llvm::enumerate(problem.problem.uses))
    if (!plan.kept[index])
      events[planned.first].push_back(uses[index].wait);
  listWaitsAcross();
}

void Applier::arrange() {
  Operation *terminator = body.getTerminator();
  auto append = [&](Operation *op) { op->moveBefore(terminator); };
  auto other = others.begin();
  auto appendAll = [&](const auto &listOf, uint32_t position) {
    if (auto found = listOf.find(position); found != listOf.end())
      llvm::for_each(found->second, append);
  };
  for (uint32_t position = 0; position < events.size(); ++position) {
    appendAll(stores, position);
    for (; other != others.end() && other->position == position && !other->isBehind; ++other)
      append(other->op);
    llvm::for_each(events[position], append);
    appendAll(fetches, position);
    for (; other != others.end() && other->position == position; ++other)
      append(other->op);
    if (position < operations.size() && operations[position])
      append(operations[position]);
  }
}

void Applier::run() {
  for (auto reduction : body.getOps<AllReduceStartOp>())
    if (!isa<ShardType>(reduction.getPayload()))
      reduction.setStream(Stream::Reduce);
  for (Operation *op : problem.operations)
    operations.push_back(op && !isEvent(*op) ? op : nullptr);
  collectUses();
  keepCopies();
  placeOthers();
  keepChunks();
  listEvents();
  arrange();
  setPhase(module, ModulePhase::Scheduled);
}

void fsdp::applySchedule(ModuleOp module, Block &body, const ScheduleProblem &problem,
                         const schedule::Plan &plan) {
  Applier(module, body, problem, plan).run();
}
