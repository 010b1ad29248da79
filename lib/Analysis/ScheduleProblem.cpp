//===- ScheduleProblem.cpp - What may be decided about a sharded step -----===//

#include "fsdp/Analysis/ScheduleProblem.h"

#include "StateCopySchedule.h"

#include <algorithm>
#include <numeric>
#include <tuple>

using namespace mlir;
using namespace fsdp;

namespace {

/// Operations are counted twice: in program order without updates ("calls"), which do not move, and
/// with the updates and pauses at their places.
class ShardedStep {
public:
  ShardedStep(ModuleOp module, const StepMemory &memory, const cost::CostModel &costs)
      : memory(memory), costs(costs), builder(module, memory, costs) {}

  FailureOr<ScheduleProblem> build(UpdatePlacement placement,
                                   std::optional<int64_t> memoryCapBytes);

private:
  /// An update, before the call of this index.
  struct PlacedUpdate {
    UpdateOp op;
    uint32_t before;
  };
  struct Use {
    AllGatherStartOp start;
    uint32_t group, first, last; // calls
  };
  struct Reduction {
    ReduceScatterStartOp start;
    uint32_t group, ready; // number of calls
  };

  void collect();
  LogicalResult collectReductions();
  void placeUpdates(UpdatePlacement placement);
  std::vector<uint8_t> findPauses() const;
  void addOperations();
  void addRanges();
  void addUses();
  void addReductions();
  void addStateCopies();
  /// The index among all operations of a call.
  uint32_t toOperation(uint32_t call) const { return operationOfCall[call]; }
  /// The position among all operations behind this many calls, before a pause and updates that
  /// stand there.
  uint32_t toPosition(uint32_t numCalls) const {
    return numCalls == 0 ? 0 : operationOfCall[numCalls - 1] + 1;
  }
  uint32_t indexOf(FlatSymbolRefAttr group) const { return memory.groups.lookup(group).index; }

  const StepMemory &memory;
  const cost::CostModel &costs;
  ProblemBuilder builder;
  ScheduleProblem result;
  std::vector<Operation *> calls;
  std::optional<uint32_t> norm; // the call that reads all reduced gradients, before updates
  std::vector<uint32_t> firstCall, lastCall;                     // by storage
  SmallVector<std::pair<ReduceScatterStartOp, uint32_t>> starts; // with the number of calls before
  std::vector<Use> uses;
  std::vector<Reduction> reductions;
  std::vector<PlacedUpdate> updates;
  std::vector<uint32_t> operationOfCall, operationOfUpdate;
};

} // namespace

void ShardedStep::collect() {
  size_t numStorages = memory.storage.getStorages().size();
  firstCall.assign(numStorages, 0);
  lastCall.assign(numStorages, 0);
  std::vector<uint8_t> isSeen(numStorages);
  DenseMap<Operation *, size_t> useOf;
  for (Operation &op : memory.getBody()) {
    // A view counts for the call before it.
    bool isCall = isOperation(op) && !isa<UpdateOp>(op);
    uint32_t numCalls = calls.size(), at = isCall || numCalls == 0 ? numCalls : numCalls - 1;
    auto use = [&](int64_t index) {
      if (!isSeen[index])
        firstCall[index] = at;
      isSeen[index] = true;
      lastCall[index] = at;
    };
    if (auto start = dyn_cast<ReduceScatterStartOp>(op)) {
      starts.push_back({start, numCalls});
      continue;
    }
    memory.storage.forEachTouched(op, use);
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
  for (auto [start, numCalls] : starts) {
    uint32_t ready = 0;
    for (auto [param, range] : llvm::enumerate(memory.ranges.lookup(start).drop_back())) {
      const LiveRange &part = memory.ranges.getRanges()[range];
      if (part.storage == StepStorage::kNone || lastCall[part.storage] >= numCalls) {
        ParamOp op = memory.groups.lookup(start.getGroupAttr()).params[param];
        return start.emitOpError("of ")
               << start.getGroupAttr() << ": the gradient of @" << op.getSymName()
               << (part.storage == StepStorage::kNone ? " does not lie in its input"
                                                      : " is read after its start");
      }
      ready = std::max(ready, lastCall[part.storage] + 1);
    }
    reductions.push_back({start, indexOf(start.getGroupAttr()), ready});
  }
  return success();
}

/// Where a reduction goes on over replicas, it has the time of one more reduction for that. Updates
/// keep their order, so that the norm of all gradients is the same sum.
void ShardedStep::placeUpdates(UpdatePlacement placement) {
  uint32_t end = calls.size(), earliest = 0;
  std::vector<uint32_t> released(memory.groups.getGroups().size(), 0);
  for (const Use &use : uses)
    released[use.group] = std::max(released[use.group], use.last + 1);
  for (auto [index, reduction] : llvm::enumerate(reductions)) {
    ReduceScatterStartOp start = reduction.start;
    UpdateOp update = start.getUpdate();
    if (!update)
      continue;
    size_t behind = index + (memory.groups.getReplicas() > 1 ? 2 : 1);
    bool isAtEnd = behind >= reductions.size() || norm || placement == UpdatePlacement::AtEnd;
    uint32_t next = isAtEnd ? end : reductions[behind].ready;
    earliest = std::max({earliest, next, reduction.ready, released[reduction.group]});
    updates.push_back({update, earliest});
  }
}

/// By call, and at the end: whether a pause stands before it. Where a use begins or a reduction
/// becomes ready, memory changes hands: a gather may have to be launched before a wait for a
/// reduction, or behind it.
std::vector<uint8_t> ShardedStep::findPauses() const {
  std::vector<uint8_t> pauses(calls.size() + 1);
  for (const Use &use : uses)
    pauses[use.first] = true;
  for (const Reduction &reduction : reductions)
    pauses[reduction.ready] = true;
  return pauses;
}

void ShardedStep::addOperations() {
  std::vector<uint8_t> pauses = findPauses();
  auto update = updates.begin();
  for (uint32_t call = 0; call <= calls.size(); ++call) {
    if (pauses[call] && !result.operations.empty())
      builder.add(nullptr);
    for (; update != updates.end() && update->before == call; ++update)
      operationOfUpdate.push_back(builder.add(update->op));
    if (call < calls.size())
      operationOfCall.push_back(builder.add(calls[call]));
  }
}

void ShardedStep::addRanges() {
  uint32_t last = result.operations.size() - 1;
  int64_t lastPosition = memory.ranges.getNumPositions() - 1;
  for (auto [index, range] : llvm::enumerate(memory.ranges.getRanges())) {
    if (range.category == BufferCategory::Gathered ||
        range.category == BufferCategory::ReducedShard ||
        range.category == BufferCategory::Gradient || isa<FetchStateStartOp>(range.owner))
      continue; // the problem has these, and copies of state theirs
    if (range.category != BufferCategory::Activation && range.category != BufferCategory::Chunk)
      builder.addRange(index, 0, last);
    else
      builder.addRange(index, toOperation(firstCall[range.storage]),
                       range.last == lastPosition ? last : toOperation(lastCall[range.storage]));
  }
  // Gradients that are still being made.
  for (const Reduction &reduction : reductions)
    for (size_t range : memory.ranges.lookup(reduction.start).drop_back())
      builder.addRange(range, toOperation(firstCall[memory.ranges.getRanges()[range].storage]),
                       toPosition(reduction.ready) - 1);
}

void ShardedStep::addUses() {
  std::ranges::stable_sort(uses, {}, [](const Use &use) { return std::pair(use.first, use.last); });
  for (const Use &use : uses) {
    result.problem.uses.push_back({use.group, toOperation(use.first), toOperation(use.last)});
    result.gathers.push_back(use.start);
  }
}

void ShardedStep::addReductions() {
  std::vector<uint32_t> updateOfGroup(memory.groups.getGroups().size(), 0);
  for (auto [update, operation] : llvm::zip_equal(updates, operationOfUpdate))
    updateOfGroup[indexOf(update.op.getTargetAttr())] = operation;
  // What is clipped is read before its update, too.
  auto readerOf = [&](uint32_t group) { return norm ? toOperation(*norm) : updateOfGroup[group]; };
  std::ranges::stable_sort(reductions, {}, [&](const Reduction &reduction) {
    return std::pair(reduction.ready, readerOf(reduction.group));
  });
  for (const Reduction &reduction : reductions) {
    result.problem.reductions.push_back(
        {reduction.group, toPosition(reduction.ready), readerOf(reduction.group),
         builder.getInputBytes(reduction.start), builder.getOutputBytes(reduction.start)});
    result.reductions.push_back(reduction.start);
    if (norm)
      builder.addRange(memory.ranges.lookup(reduction.start).back(), toOperation(*norm) + 1,
                       updateOfGroup[reduction.group]);
  }
}

/// Directly around their updates, for a start.
void ShardedStep::addStateCopies() {
  std::vector<std::optional<StateCopy>> copyOf(memory.groups.getGroups().size());
  for (StateCopy &copy : collectStateCopies(memory.getBody()))
    copyOf[indexOf(copy.update.getTargetAttr())] = copy;
  for (auto [update, operation] : llvm::zip_equal(updates, operationOfUpdate))
    if (const std::optional<StateCopy> &copy = copyOf[indexOf(update.op.getTargetAttr())])
      result.stateCopies.push_back({*copy, operation, operation, operation + 1, operation + 1});
  addStateRanges(result, memory);
}

FailureOr<ScheduleProblem> ShardedStep::build(UpdatePlacement placement,
                                              std::optional<int64_t> memoryCapBytes) {
  if (failed(builder.begin(result)))
    return failure();
  result.problem.memoryCapBytes = memoryCapBytes;
  collect();
  if (failed(collectReductions()))
    return failure();
  placeUpdates(placement);
  addOperations();
  addRanges();
  addUses();
  addReductions();
  addStateCopies();
  builder.finish();
  spreadStateCopies(result, memory, costs, builder);
  chargeStateCopies(result, memory, costs);
  return std::move(result);
}

FailureOr<ScheduleProblem> fsdp::getScheduleProblem(ModuleOp module, const StepMemory &memory,
                                                    const cost::CostModel &costs,
                                                    UpdatePlacement placement,
                                                    std::optional<int64_t> memoryCapBytes) {
  return ShardedStep(module, memory, costs).build(placement, memoryCapBytes);
}
