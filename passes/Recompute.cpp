//===- Recompute.cpp - Recomputes results in the backward -----------------===//
//
// Three linear walks: the first finds where the backward uses each storage; the second decides
// which operators are recomputed, from the last to the first, so that an operator is decided after
// all its users; the third inserts the copies, at places decided by position numbers.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step.h"
#include "fsdp/CostModel/OperatorWork.h"
#include "fsdp/IR/ModelCollectives.h"
#include "fsdp/IR/TensorLayout.h"
#include "fsdp/Transforms/Decisions.h"
#include "fsdp/Transforms/RecomputeBlocks.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "passes/Passes.h"
#include "llvm/ADT/DenseSet.h"

namespace fsdp {
#define GEN_PASS_DEF_RECOMPUTE
#include "passes/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;
using aten::CallOp;
using aten::Phase;

namespace {

/// A tensor and all its views in the forward. `value` owns the bytes.
struct Storage {
  Value value;
  CallOp producer = {}; // null: a parameter, buffer, input or constant, always in memory
  unsigned block = 0;                // of the producer
  SmallVector<CallOp, 2> views = {}; // of the forward, in order
  /// Positions of calls of the backward that use the storage, or before which a copy does; -1:
  /// none.
  int64_t firstUse = -1, lastUse = -1;
  bool isSaved = false;      // used by the backward as captured
  bool isKept = false;       // needed by something other than its own block's backward
  bool isRecomputed = false; // its producer is recomputed

  void use(int64_t position) {
    firstUse = firstUse < 0 ? position : std::min(firstUse, position);
    lastUse = std::max(lastUse, position);
  }
  /// True if the bytes live from the forward into the backward.
  bool isAwaited() const { return firstUse >= 0 && (isKept || !isRecomputed); }
  int64_t getBytes() const { return getStorageBytes(cast<RankedTensorType>(value.getType())); }
};

struct RecomputePass : public fsdp::impl::RecomputeBase<RecomputePass> {
  using RecomputeBase::RecomputeBase;
  void runOnOperation() override;

private:
  void reset();
  BlockOptions getBlockOptions() {
    std::vector<std::string> &patterns = blockPatterns;
    return {policy, patterns};
  }
  /// The blocks, with policies of at most `limit`.
  FailureOr<RecomputeBlocks> findBlocks(RecomputePolicy limit) {
    std::vector<std::string> &kept = keep;
    return RecomputeBlocks::build(step, getBlockOptions(), kept, limit);
  }
  /// One round over the step.
  LogicalResult runRound(RecomputeBlocks &&found, RecomputePolicy limit);
  LogicalResult collectUses(Block &body);
  LogicalResult collectForward(CallOp call);
  void collectBackward(CallOp call, int64_t position);
  void decide(MutableArrayRef<Storage> results);
  bool isAllowed(CallOp call, unsigned block, int64_t position);
  bool isThere(Value operand, unsigned block, int64_t position) const;
  void findViews();
  void rewrite();
  void report();

  unsigned blockOf(CallOp call) { return blocks.find(call.getModuleAttr()); }
  /// Calls `visit` with the storages of the results of each call of the forward, last call first.
  void forEachProducerReversed(function_ref<void(MutableArrayRef<Storage>)> visit);

  Step step;
  SmallVector<CallOp> calls;             // by position
  std::vector<Storage> storages;         // in program order of their producers
  DenseMap<Value, unsigned> storageOf;   // forward values only
  RecomputeBlocks blocks;                // of this round
  double recomputedFlops;                // of a microbatch, by all runs of this pass on the module
  // For each recomputed call: the position before which its copy goes.
  DenseMap<Operation *, int64_t> places;
  DenseSet<Operation *> copied; // recomputed calls, and views that are made again
};

} // namespace

//===----------------------------------------------------------------------===//
// Collect
//===----------------------------------------------------------------------===//

void RecomputePass::collectBackward(CallOp call, int64_t position) {
  for (Value operand : call.getOperands()) {
    auto it = storageOf.find(operand);
    if (it == storageOf.end())
      continue;
    Storage &storage = storages[it->second];
    storage.use(position);
    storage.isSaved = true;
    storage.isKept |= storage.producer && blockOf(call) != storage.block;
  }
}

LogicalResult RecomputePass::collectForward(CallOp call) {
  for (Value operand : call.getOperands())
    if (!storageOf.contains(operand))
      return call.emitError("is in the forward but uses a value of the backward");
  if (call.isView() && !call.getOperands().empty()) {
    unsigned storage = storageOf.lookup(call.getOperands().front());
    storages[storage].views.push_back(call);
    for (Value result : call.getResults())
      storageOf[result] = storage;
    return success();
  }
  for (Value result : call.getResults()) {
    storageOf[result] = storages.size();
    storages.push_back({result, call, blockOf(call)});
  }
  return success();
}

LogicalResult RecomputePass::collectUses(Block &body) {
  for (Operation &op : body) {
    auto call = dyn_cast<CallOp>(op);
    if (!call) {
      for (Value operand : op.getOperands())
        if (auto it = storageOf.find(operand); it != storageOf.end())
          storages[it->second].isKept = true;
      for (Value result : op.getResults()) {
        storageOf[result] = storages.size();
        storages.push_back({result});
      }
      continue;
    }
    int64_t position = calls.size();
    calls.push_back(call);
    if (call.getPhase() == Phase::Backward)
      collectBackward(call, position);
    else if (failed(collectForward(call)))
      return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Decide
//===----------------------------------------------------------------------===//

void RecomputePass::forEachProducerReversed(function_ref<void(MutableArrayRef<Storage>)> visit) {
  for (size_t end = storages.size(); end > 0;) {
    size_t begin = end - 1;
    while (begin > 0 && storages[begin].producer &&
           storages[begin - 1].producer == storages[begin].producer)
      --begin;
    if (storages[begin].producer)
      visit(MutableArrayRef(storages).slice(begin, end - begin));
    end = begin;
  }
}

/// True if `operand` exists before call `position` of the backward without being kept for this
/// recomputation.
bool RecomputePass::isThere(Value operand, unsigned block, int64_t position) const {
  const Storage &storage = storages[storageOf.lookup(operand)];
  if (!storage.producer)
    return true;
  // Another block recomputes its results later, for itself.
  if (storage.block != block && blocks[storage.block].isRepeated() && !storage.isKept)
    return false;
  return storage.lastUse >= position;
}

/// True if the policy lets the backward of `index` repeat `call`, first needed at `position`.
bool RecomputePass::isAllowed(CallOp call, unsigned index, int64_t position) {
  const RecomputeBlock &block = blocks[index];
  if (block.policy == RecomputePolicy::None)
    return false;
  if (!block.isRepeated())
    return call.isCheap() && call.getNumResults() == 1 &&
           llvm::all_of(call.getOperands(),
                        [&](Value operand) { return isThere(operand, index, position); });
  if (block.policy == RecomputePolicy::Full)
    return true;
  if (!block.keep.empty())
    return !block.keep.contains(call.getBaseName());
  return cost::countWork(call).arithmetic == cost::Arithmetic::None && !getModelCollective(call);
}

void RecomputePass::decide(MutableArrayRef<Storage> results) {
  CallOp producer = results.front().producer;
  unsigned block = results.front().block;
  int64_t place = -1, bytes = 0;
  for (Storage &result : results)
    if (!result.isKept && result.firstUse >= 0) {
      place = place < 0 ? result.firstUse : std::min(place, result.firstUse);
      bytes += result.getBytes();
    }
  if (place < 0 || bytes < minBytes || !isAllowed(producer, block, place))
    return;
  places[producer] = place;
  for (Storage &result : results)
    result.isRecomputed = true;
  for (Value operand : producer.getOperands()) {
    Storage &source = storages[storageOf.lookup(operand)];
    source.use(place);
    source.isKept |= source.producer && source.block != block;
  }
}

//===----------------------------------------------------------------------===//
// Transform
//===----------------------------------------------------------------------===//

/// Finds the views to make again: views of copies that the backward uses.
void RecomputePass::findViews() {
  for (auto [call, place] : places)
    copied.insert(call);
  auto isUserInBackward = [&](Operation *user) {
    return cast<CallOp>(user).getPhase() == Phase::Backward || copied.contains(user);
  };
  for (Storage &storage : storages)
    if (storage.isRecomputed && !storage.isKept)
      for (CallOp view : llvm::reverse(storage.views))
        if (llvm::any_of(view->getUsers(), isUserInBackward))
          copied.insert(view);
}

void RecomputePass::rewrite() {
  IRMapping copies;
  OpBuilder builder(&getContext());
  auto copy = [&](CallOp call, CallOp producer) {
    auto again = cast<CallOp>(builder.clone(*call, copies));
    again.setPhase(Phase::Backward);
    recomputedFlops += cost::countWork(again).flops;
    // A view of another group's module must not extend that group's backward.
    unsigned group = blocks[blockOf(producer)].group;
    if (blocks[blockOf(call)].group != group)
      again.setScopeAttr(producer.getScopeAttr());
    // Modules of one group may be inside modules of several other groups. A copy belongs to the
    // module that needs it, else the backward of the enclosing groups would begin too early.
    if (group < step.groups.size() && step.groups[group].isBlock() &&
        step.groups[group].getModules().size() > 1)
      again.setScopeAttr(calls[places.lookup(producer)].getScopeAttr());
  };
  // In program order, so that operands precede results at the same place.
  for (Storage &storage : storages) {
    if (!storage.isRecomputed)
      continue;
    builder.setInsertionPoint(calls[places.lookup(storage.producer)]);
    if (storage.value == storage.producer.getResult(0))
      copy(storage.producer, storage.producer);
    if (storage.isKept) {
      copies.erase(storage.value);
      continue;
    }
    for (CallOp view : storage.views)
      if (copied.contains(view))
        copy(view, storage.producer);
  }
  for (CallOp call : calls)
    if (call.getPhase() == Phase::Backward)
      for (OpOperand &operand : call->getOpOperands())
        operand.set(copies.lookupOrDefault(operand.get()));
}

void RecomputePass::report() {
  int64_t bytes = 0;
  for (Storage &storage : storages)
    if (storage.producer && isa<RankedTensorType>(storage.value.getType()))
      bytes += storage.getBytes() * (storage.isSaved - storage.isAwaited());
  remark::analysis(getOperation().getLoc(),
                   remark::RemarkOpts::name("recompute").category(getArgument()))
      << remark::metric("Recomputed", places.size()) << remark::metric("BytesNotKept", bytes);
}

void RecomputePass::reset() {
  calls.clear();
  storages.clear();
  storageOf.clear();
  places.clear();
  copied.clear();
}

void RecomputePass::runOnOperation() {
  if (failed(expectPhase(getOperation(), getArgument(), ModulePhase::Captured)))
    return signalPassFailure();
  FailureOr<Step> collected = Step::collect(getOperation());
  if (failed(collected))
    return signalPassFailure();
  step = *collected;
  if (failed(checkBlockOptions(step, getBlockOptions())))
    return signalPassFailure();
  auto earlier =
      getOperation()->getAttrOfType<IntegerAttr>(FsdpDialect::getRecomputedFlopsAttrName());
  recomputedFlops = earlier ? static_cast<double>(earlier.getInt()) : 0;
  FailureOr<RecomputeBlocks> all = findBlocks(RecomputePolicy::Full);
  if (failed(all))
    return signalPassFailure();
  if (cheapFirst && all->hasRepeated()) {
    FailureOr<RecomputeBlocks> cheap = findBlocks(RecomputePolicy::Cheap);
    if (failed(cheap) || failed(runRound(std::move(*cheap), RecomputePolicy::Cheap)))
      return signalPassFailure();
  }
  if (failed(runRound(std::move(*all), RecomputePolicy::Full)))
    return signalPassFailure();
  report();
  for (auto [index, group] : llvm::enumerate(step.groups)) {
    group.setRecomputed(blocks[index].policy);
    if (group.getRecompute() == RecomputePolicy::Auto)
      recordDecision(
          group,
          {Subject::Recomputed, "recomputes by policy cheap", "without a search auto means cheap"},
          getArgument());
  }
  if (recomputedFlops > 0)
    getOperation()->setAttr(
        FsdpDialect::getRecomputedFlopsAttrName(),
        Builder(&getContext()).getI64IntegerAttr(static_cast<int64_t>(recomputedFlops)));
  getOperation()->setAttr(
      FsdpDialect::getRecomputeAttrName(),
      RecomputeAttr::get(&getContext(), policy, blocks.getNumBlocks(), RecomputeReason::Asked));
}

LogicalResult RecomputePass::runRound(RecomputeBlocks &&found, RecomputePolicy limit) {
  reset();
  blocks = std::move(found);
  if (failed(collectUses(step.getBody())))
    return failure();
  if (limit == RecomputePolicy::Full && failed(blocks.checkKeep(step, calls)))
    return failure();
  forEachProducerReversed([&](MutableArrayRef<Storage> results) { decide(results); });
  findViews();
  rewrite();
  return success();
}
