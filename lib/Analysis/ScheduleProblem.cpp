//===- ScheduleProblem.cpp - The problem of a sharded step ----------------===//

#include "fsdp/Analysis/ScheduleProblem.h"

#include "ShardedStep.h"

#include <algorithm>
#include <numeric>
#include <tuple>

using namespace mlir;
using namespace fsdp;

void ShardedStep::collect() {
  size_t numStorages = memory.storage.getStorages().size();
  firstCall.assign(numStorages, 0);
  lastCall.assign(numStorages, 0);
  std::vector<uint8_t> isSeen(numStorages);
  DenseMap<Operation *, size_t> useOf;
  for (Operation &op : memory.getBody()) {
    // A view counts as part of the call before it.
    bool isCall = isOperation(op) && !readsReduced(op);
    uint32_t numCalls = calls.size(), at = isCall || numCalls == 0 ? numCalls : numCalls - 1;
    auto use = [&](int64_t index) {
      if (!isSeen[index])
        firstCall[index] = at;
      isSeen[index] = true;
      lastCall[index] = at;
    };
    if (auto start = dyn_cast<ReduceScatterStartOp>(op)) {
      starts.push_back({start, numCalls});
      uint32_t &last = lastMade.emplace_back(0);
      for (Value gradient : start.getGrads())
        if (int64_t index = memory.storage.lookup(gradient); index != StepStorage::kNone)
          last = std::max(last, lastCall[index]);
      continue;
    }
    memory.storage.forEachTouched(op, use);
    if (isa<StoreStartOp, StoreWaitOp, FetchStartOp, FetchWaitOp>(op))
      callsBefore[&op] = numCalls;
    if (isCall) {
      if (isa<PartialNormOp>(op))
        norm = numCalls;
      calls.push_back(&op);
    } else if (auto wait = dyn_cast<AllGatherWaitOp>(op)) {
      AllGatherStartOp start = wait.getStart();
      useOf[start] = uses.size();
      uses.push_back({start, indexOf(start.getGroupAttr()), numCalls, UINT32_MAX});
    } else if (auto reshard = dyn_cast<ReshardOp>(op)) {
      uses[useOf.lookup(reshard.getStart())].last = at;
    }
  }
  uint32_t lastIndex = calls.empty() ? 0 : calls.size() - 1;
  for (Use &use : uses) {
    use.first = std::min(use.first, lastIndex);
    use.last = std::max(use.first, std::min(use.last, lastIndex));
  }
}

LogicalResult ShardedStep::collectReductions() {
  for (auto [index, entry] : llvm::enumerate(starts)) {
    auto [start, numCalls] = entry;
    const GroupInfo &group = memory.groups.lookup(start.getGroupAttr());
    uint32_t ready = 0;
    if (!group.isFlat()) {
      reductions.push_back({start, group.index, lastMade[index] + 1});
      continue;
    }
    for (auto [param, range] : llvm::enumerate(memory.ranges.lookup(start).drop_back())) {
      const LiveRange &part = memory.ranges.getRanges()[range];
      if (part.storage == StepStorage::kNone || lastCall[part.storage] >= numCalls) {
        ParamOp op = group.params[param];
        return start.emitOpError("of ")
               << start.getGroupAttr() << ": the gradient of @" << op.getSymName()
               << (part.storage == StepStorage::kNone ? " does not lie in its input"
                                                      : " is read after its start");
      }
      ready = std::max(ready, lastCall[part.storage] + 1);
    }
    reductions.push_back({start, group.index, ready});
  }
  return success();
}

/// The operations that wait for a reduction, in order: casts of its shard, the sum with the shards
/// of earlier microbatches, the update.
static SmallVector<Operation *> findReaders(Value shard) {
  SmallVector<Operation *> readers;
  while (shard) {
    Operation *next = nullptr;
    for (Operation *user : shard.getUsers()) {
      auto sum = dyn_cast<AccumulateOp>(user);
      // Readers of a sum wait for the later summand's reduction.
      if (sum && sum.getSum() == shard)
        return readers;
      if (readsReduced(*user))
        next = user;
    }
    if (next)
      readers.push_back(next);
    shard = next && next->getNumResults() > 0 ? next->getResult(0) : Value();
  }
  return readers;
}

/// A reduction with an all-reduce over replicas is placed one reduction later to leave time for it.
/// Updates keep their order, so that the norm of all gradients is the same sum.
void ShardedStep::placeReaders(UpdatePlacement placement) {
  uint32_t end = calls.size(), earliest = 0;
  std::vector<uint32_t> released(memory.groups.getGroups().size(), 0);
  for (const Use &use : uses)
    released[use.group] = std::max(released[use.group], use.last + 1);
  for (auto [index, reduction] : llvm::enumerate(reductions)) {
    ReduceScatterStartOp start = reduction.start;
    size_t behind = index + (memory.groups.lookup(start.getGroupAttr()).replicas > 1 ? 2 : 1);
    uint32_t next = behind < reductions.size() ? reductions[behind].ready : norm.value_or(end);
    earliest = std::max({earliest, next, reduction.ready});
    for (Operation *reader : findReaders(start.getReduced())) {
      if (!isa<UpdateOp>(reader)) {
        readers.push_back({reader, earliest});
        continue;
      }
      if (norm || placement == UpdatePlacement::AtEnd) {
        readers.push_back({reader, end});
        continue;
      }
      earliest = std::max(earliest, released[reduction.group]);
      readers.push_back({reader, earliest});
    }
  }
  std::ranges::stable_sort(readers, {}, &PlacedReader::before);
}

/// By call, and at the end: whether a pause precedes it. Where a use begins or a reduction becomes
/// ready, buffers are allocated and freed: a gather may have to be launched before a wait for a
/// reduction, or after it.
std::vector<uint8_t> ShardedStep::findPauses() const {
  std::vector<uint8_t> pauses(calls.size() + 1);
  for (const Use &use : uses)
    pauses[use.first] = true;
  for (const Reduction &reduction : reductions)
    pauses[reduction.ready] = true;
  return pauses;
}

/// In the per-param layout: copies gradients after the call that computes the last of them.
void ShardedStep::addCopyIn(Reduction &reduction) {
  if (memory.groups.getGroups()[reduction.group].isFlat())
    return;
  reduction.copyIn = builder.add(reduction.start, builder.getInputBytes(reduction.start));
  result.gradientCopies.push_back(*reduction.copyIn);
}

/// Copies parameters before their first use.
void ShardedStep::addCopyOut(Use &use) {
  AllGatherWaitOp wait = use.start.getWait();
  if (int64_t bytes = builder.getCopiedOut(wait); bytes > 0)
    use.copyOut = builder.add(wait, bytes);
}

void ShardedStep::addOperations() {
  std::ranges::stable_sort(uses, {}, [](const Use &use) { return std::pair(use.first, use.last); });
  std::ranges::stable_sort(reductions, {}, &Reduction::ready);
  std::vector<uint8_t> pauses = findPauses();
  auto reader = readers.begin();
  auto use = uses.begin();
  std::vector<Use *> byLast;
  for (Use &each : uses)
    byLast.push_back(&each);
  std::ranges::stable_sort(byLast, {}, &Use::last);
  auto ending = byLast.begin();
  auto reduction = reductions.begin();
  for (uint32_t call = 0; call <= calls.size(); ++call) {
    for (; reduction != reductions.end() && reduction->ready == call; ++reduction)
      addCopyIn(*reduction);
    if (pauses[call] && !result.operations.empty())
      builder.add(nullptr);
    for (; reader != readers.end() && reader->before == call; ++reader)
      operationOfReader[reader->op] = builder.add(reader->op);
    for (; use != uses.end() && use->first == call; ++use) {
      if (mayChunk(*use))
        use->hasChunk = builder.add(nullptr);
      addCopyOut(*use);
    }
    if (call < calls.size())
      operationOfCall.push_back(builder.add(calls[call]));
    for (; ending != byLast.end() && (*ending)->last == call; ++ending)
      if (mayChunk(**ending))
        (*ending)->makesChunk = builder.add(nullptr);
    positionBehindCall.push_back(result.operations.size());
  }
  if (norm)
    operationOfReader[calls[*norm]] = toOperation(*norm);
}

void ShardedStep::addRanges() {
  uint32_t last = result.operations.size() - 1;
  std::vector<uint32_t> lastCopy(memory.storage.getStorages().size()); // a gradient's last copy
  for (const Reduction &reduction : reductions)
    for (Value gradient : ReduceScatterStartOp(reduction.start).getGrads())
      if (int64_t index = memory.storage.lookup(gradient);
          reduction.copyIn && index != StepStorage::kNone)
        lastCopy[index] = std::max(lastCopy[index], *reduction.copyIn);
  int64_t lastPosition = memory.ranges.getNumPositions() - 1;
  for (auto [index, range] : llvm::enumerate(memory.ranges.getRanges())) {
    if (range.category == BufferCategory::Gathered ||
        range.category == BufferCategory::ReducedShard ||
        range.category == BufferCategory::Gradient || isFetched(range))
      continue; // counted by the problem itself, or by host copies
    if (range.category != BufferCategory::Activation && range.category != BufferCategory::Chunk)
      builder.addRange(index, 0, last);
    else
      builder.addRange(index, toOperation(firstCall[range.storage]),
                       range.last == lastPosition ? last
                                                  : std::max(toOperation(lastCall[range.storage]),
                                                             lastCopy[range.storage]));
  }
  // Gradients that are not complete yet.
  for (const Reduction &reduction : reductions)
    for (size_t range : memory.ranges.lookup(reduction.start)) {
      if (reduction.copyIn) // with the reduced shard, in case the reduction starts at once
        builder.addRange(range, *reduction.copyIn, *reduction.copyIn);
      else if (memory.ranges.getRanges()[range].category == BufferCategory::Gradient)
        builder.addRange(range, toOperation(firstCall[memory.ranges.getRanges()[range].storage]),
                         toPosition(reduction.ready) - 1);
    }
}

void ShardedStep::addUses() {
  std::vector<uint8_t> isUsed(memory.groups.getGroups().size());
  auto copyOf = [&](const Use &use) { return use.copyOut.value_or(toOperation(use.first)); };
  auto firstOf = [&](const Use &use) { return use.hasChunk.value_or(copyOf(use)); };
  auto lastOf = [&](const Use &use) { return use.makesChunk.value_or(toOperation(use.last)); };
  std::ranges::stable_sort(uses, {},
                           [&](const Use &use) { return std::pair(firstOf(use), lastOf(use)); });
  for (const Use &use : uses) {
    uint32_t copy = copyOf(use), first = firstOf(use), last = lastOf(use);
    if (use.copyOut) {
      builder.addCopiesOut(AllGatherStartOp(use.start).getWait(), first, copy, last);
      if (isUsed[use.group] && result.problem.groups[use.group].keep == schedule::KeepRule::Free)
        result.sparedCopies.push_back({static_cast<uint32_t>(result.problem.uses.size()), copy});
    }
    isUsed[use.group] = true;
    result.problem.uses.push_back({use.group, first, last});
    result.gathers.push_back(use.start);
  }
}

void ShardedStep::addReductions() {
  /// The first reader of the reduced shard if no other reduction contributes to it.
  auto readerOf = [&](const Reduction &reduction) {
    ReduceScatterStartOp start = reduction.start;
    uint32_t first = UINT32_MAX;
    for (Operation *user : start.getReduced().getUsers())
      if (auto found = operationOfReader.find(user); found != operationOfReader.end())
        first = std::min(first, found->second);
    return first;
  };
  std::ranges::stable_sort(reductions, {}, [&](const Reduction &reduction) {
    return std::pair(toPosition(reduction), readerOf(reduction));
  });
  for (const Reduction &reduction : reductions) {
    result.problem.reductions.push_back(
        {reduction.group, toPosition(reduction), readerOf(reduction),
         builder.getInputBytes(reduction.start), builder.getOutputBytes(reduction.start)});
    result.reductions.push_back(reduction.start);
  }
}

/// A shard may be live after its first reader: other shards are added to it, or an update follows
/// the norm. The same holds for a shard in another dtype, from its cast on.
void ShardedStep::addReducedShards() {
  DenseMap<int64_t, uint32_t> lastReader; // by storage
  for (auto [op, operation] : operationOfReader)
    memory.storage.forEachTouched(*op, [&, operation = operation](int64_t index) {
      uint32_t &last = lastReader[index];
      last = std::max(last, operation);
    });
  for (auto [start, reduction] : llvm::zip_equal(result.reductions, result.problem.reductions)) {
    size_t range = memory.ranges.lookup(start).back();
    ReduceScatterStartOp op = start;
    if (uint32_t last = lastReader.lookup(memory.storage.lookup(op.getHandle()));
        last > reduction.update)
      builder.addRange(range, reduction.update + 1, last);
  }
  for (const PlacedReader &reader : readers)
    if (auto cast = dyn_cast<CastOp>(reader.op)) {
      int64_t storage = memory.storage.lookup(cast.getResult());
      builder.addRange(memory.ranges.lookup(storage), operationOfReader.lookup(cast),
                       lastReader.lookup(storage));
    }
}

/// Checks that copy engines connect the ranks of a step that requests them.
LogicalResult ShardedStep::checkTransports() {
  for (auto start : memory.getBody().getOps<AllGatherStartOp>()) {
    const GroupInfo &group = memory.groups.lookup(start.getGroupAttr());
    const int64_t ranks = group.getShards() * group.replicas;
    if (start.getTransport() == Transport::CopyEngine && !costs.areOnOneHost(ranks))
      return start.emitOpError("of ")
             << start.getGroupAttr()
             << " goes by copy engines, which join ranks of one host, but of " << ranks
             << " ranks a host has " << costs.getRanksPerHost()
             << "; expected transport kernels or auto";
  }
  return success();
}

FailureOr<ScheduleProblem> ShardedStep::build(UpdatePlacement placement,
                                              std::optional<int64_t> memoryCapBytes,
                                              bool mayOffloadChunks) {
  builder.begin(result);
  result.problem.memoryCapBytes = memoryCapBytes;
  if (failed(checkTransports()))
    return failure();
  for (const GroupInfo &info : memory.groups.getGroups())
    result.problem.groups[info.index].chunks = builder.findChunks(info, mayOffloadChunks);
  collect();
  if (failed(collectReductions()))
    return failure();
  placeReaders(placement);
  addOperations();
  addRanges();
  addUses();
  addReductions();
  addReducedShards();
  addHostCopies();
  builder.finish();
  spreadHostCopies(result, copyBounds, memory, costs, builder);
  chargeHostCopies(result, memory, costs);
  return std::move(result);
}

FailureOr<ScheduleProblem> fsdp::getScheduleProblem(ModuleOp module, const StepMemory &memory,
                                                    const cost::CostModel &costs,
                                                    UpdatePlacement placement,
                                                    std::optional<int64_t> memoryCapBytes,
                                                    bool mayOffloadChunks) {
  return ShardedStep(module, memory, costs).build(placement, memoryCapBytes, mayOffloadChunks);
}
