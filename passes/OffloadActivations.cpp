//===- OffloadActivations.cpp - Keeps activations in host memory ----------===//

#include "fsdp/Analysis/Step.h"
#include "fsdp/IR/TensorLayout.h"
#include "fsdp/Transforms/Decisions.h"
#include "fsdp/Transforms/RecomputeBlocks.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "passes/Passes.h"
#include "llvm/ADT/MapVector.h"

namespace fsdp {
#define GEN_PASS_DEF_OFFLOADACTIVATIONS
#include "passes/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;
using aten::CallOp;
using aten::Phase;

namespace {

/// Consecutive calls of one block, phase and microbatch.
struct Run {
  unsigned group; // of the block; the number of groups stands for operators of no group
  CallOp first, last;
};

/// A result of the forward that owns its bytes, and the readers of these bytes.
struct Activation {
  CallOp last = {}; // its last reader in the forward; its maker if nothing reads it
  // Reads of the backward, in order, of the tensor or of its views.
  SmallVector<OpOperand *> uses = {};
  // Read by operations other than calls, or by the forward after the backward.
  bool isReadElsewhere = false;
};

class Offloader {
public:
  Offloader(Step &step, RecomputeBlocks &blocks, int64_t minBytes)
      : step(step), blocks(blocks), minBytes(minBytes), builder(step.module.getContext()) {}
  /// Finds the activations of each group that can wait on the host.
  void collect();
  bool hasActivations(unsigned group) const { return groups.contains(group); }
  /// Stores and fetches the activations of the groups for which `isWanted` is true.
  void run(function_ref<bool(unsigned group)> isWanted);

  int64_t numOffloaded = 0, offloadedBytes = 0;

private:
  void read(CallOp call);
  bool canWait(Value tensor, const Activation &activation) const;
  unsigned getRun(CallOp call) const { return runOf.lookup(call); }
  unsigned getGroup(const Activation &activation) const {
    return runs[getRun(cast<CallOp>(activation.uses.front()->getOwner()))].group;
  }
  void offload(Value tensor, const Activation &activation);
  void replaceUses(const Activation &activation, Value tensor, Value fetched);
  /// Creates an operation after `op` and after the operations inserted there before.
  template <typename OpT, typename... Args> OpT createBehind(Operation *op, Args &&...args);

  Step &step;
  RecomputeBlocks &blocks;
  const int64_t minBytes;
  OpBuilder builder;
  std::vector<Run> runs;
  DenseMap<Operation *, unsigned> runOf;
  /// For each result of the forward, the tensor that owns its bytes: itself unless it is a view.
  DenseMap<Value, Value> rootOf;
  llvm::MapVector<Value, Activation> activations;
  DenseSet<unsigned> groups; // with activations that can wait
  // For each operation: the last one inserted after it.
  DenseMap<Operation *, Operation *> lastBehind;
};

} // namespace

//===----------------------------------------------------------------------===//
// Collect
//===----------------------------------------------------------------------===//

void Offloader::read(CallOp call) {
  const unsigned group = blocks[blocks.find(call.getModuleAttr())].group;
  const bool isSameRun = !runs.empty() && runs.back().group == group &&
                         runs.back().last.getPhase() == call.getPhase() &&
                         runs.back().last.getMicrobatch() == call.getMicrobatch();
  if (!isSameRun)
    runs.push_back({group, call, call});
  runs.back().last = call;
  runOf[call] = runs.size() - 1;
  for (OpOperand &operand : call->getOpOperands()) {
    Value root = rootOf.lookup(operand.get());
    if (!root)
      continue;
    Activation &activation = activations[root];
    if (call.getPhase() == Phase::Backward)
      activation.uses.push_back(&operand);
    else if (!activation.uses.empty())
      activation.isReadElsewhere = true;
    else if (!call.isView())
      activation.last = call;
  }
  if (call.getPhase() == Phase::Backward)
    return;
  const bool isView = call.isView() && !call.getOperands().empty();
  for (Value result : call.getResults()) {
    Value root = isView ? rootOf.lookup(call.getOperand(0)) : result;
    if (root)
      rootOf[result] = root;
    if (root == result)
      activations[root].last = call;
  }
}

void Offloader::collect() {
  for (Operation &op : step.getBody()) {
    if (auto call = dyn_cast<CallOp>(op))
      read(call);
    else
      for (Value operand : op.getOperands())
        if (Value root = rootOf.lookup(operand))
          activations[root].isReadElsewhere = true;
  }
  for (auto &[tensor, activation] : activations)
    if (canWait(tensor, activation))
      groups.insert(getGroup(activation));
}

/// True if only operators read the tensor, and if there is time to copy it: the run after its last
/// reader in the forward, which overlaps the store, ends before the run that precedes its first
/// reader in the backward, which overlaps the fetch.
bool Offloader::canWait(Value tensor, const Activation &activation) const {
  auto type = dyn_cast<RankedTensorType>(tensor.getType());
  if (!type || activation.uses.empty() || activation.isReadElsewhere)
    return false;
  const int64_t bytes = getStorageBytes(type);
  return bytes > 0 && bytes >= minBytes &&
         bytes == type.getNumElements() * getElementBytes(type.getElementType()) &&
         getRun(activation.last) + 1 <
             getRun(cast<CallOp>(activation.uses.front()->getOwner())) - 1;
}

//===----------------------------------------------------------------------===//
// Transform
//===----------------------------------------------------------------------===//

template <typename OpT, typename... Args>
OpT Offloader::createBehind(Operation *op, Args &&...args) {
  Operation *&last = lastBehind.try_emplace(op, op).first->second;
  builder.setInsertionPointAfter(last);
  auto created = OpT::create(builder, std::forward<Args>(args)...);
  last = created;
  return created;
}

/// Replaces uses of the tensor in the backward by `fetched`. Views are made again where the
/// backward first reads one.
void Offloader::replaceUses(const Activation &activation, Value tensor, Value fetched) {
  IRMapping again;
  again.map(tensor, fetched);
  auto reader = cast<CallOp>(activation.uses.front()->getOwner());
  builder.setInsertionPoint(reader);
  auto remake = [&](auto &self, Value value) -> Value {
    if (!again.contains(value)) {
      auto view = cast<CallOp>(value.getDefiningOp());
      self(self, view.getOperand(0));
      auto copy = cast<CallOp>(builder.clone(*view, again));
      copy.setPhase(Phase::Backward);
      copy.setScopeAttr(reader.getScopeAttr());
    }
    return again.lookup(value);
  };
  for (OpOperand *use : activation.uses)
    use->set(remake(remake, use->get()));
}

void Offloader::offload(Value tensor, const Activation &activation) {
  auto handle = HandleType::get(builder.getContext());
  auto reader = cast<CallOp>(activation.uses.front()->getOwner());
  Location loc = tensor.getLoc();
  auto store = createBehind<StoreStartOp>(activation.last, loc, handle, tensor,
                                          /*offset=*/nullptr);
  Value stored = createBehind<StoreWaitOp>(runs[getRun(activation.last) + 1].last, loc,
                                           HostType::get(builder.getContext(), tensor.getType()),
                                           store.getHandle());
  builder.setInsertionPoint(runs[getRun(reader) - 1].first);
  auto fetch = FetchStartOp::create(builder, loc, handle, stored, /*offset=*/nullptr);
  builder.setInsertionPoint(reader);
  Value fetched = FetchWaitOp::create(builder, loc, tensor.getType(), fetch.getHandle());
  replaceUses(activation, tensor, fetched);
  ++numOffloaded;
  offloadedBytes += getStorageBytes(cast<RankedTensorType>(tensor.getType()));
}

/// Offloads the activations in the order in which the backward reads them, which is the order of
/// the fetches.
void Offloader::run(function_ref<bool(unsigned group)> isWanted) {
  SmallVector<Value> wanted;
  for (auto &[tensor, activation] : activations)
    if (canWait(tensor, activation) && isWanted(getGroup(activation)))
      wanted.push_back(tensor);
  DenseMap<Operation *, size_t> placeOf;
  for (auto [place, op] : llvm::enumerate(step.getBody()))
    placeOf[&op] = place;
  llvm::stable_sort(wanted, [&](Value a, Value b) {
    auto getPlace = [&](Value tensor) {
      return placeOf.lookup(activations[tensor].uses.front()->getOwner());
    };
    return getPlace(a) < getPlace(b);
  });
  for (Value tensor : wanted)
    offload(tensor, activations[tensor]);
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
struct OffloadActivationsPass : public fsdp::impl::OffloadActivationsBase<OffloadActivationsPass> {
  using OffloadActivationsBase::OffloadActivationsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(expectPhase(module, getArgument(), ModulePhase::Sharded)))
      return signalPassFailure();
    FailureOr<Step> step = Step::collect(module);
    if (failed(step))
      return signalPassFailure();
    if (activations == OffloadPolicy::Auto) {
      module.emitError("offload-activations=auto needs a search: schedule=auto or asap, several "
                       "ranks and a memory-cap; expected all or none");
      return signalPassFailure();
    }
    FailureOr<RecomputeBlocks> blocks =
        RecomputeBlocks::build(*step, {RecomputePolicy::Cheap, {}}, {}, RecomputePolicy::Full);
    if (failed(blocks))
      return signalPassFailure();
    Offloader offloader(*step, *blocks, minBytes);
    if (!step->isEvaluation())
      offloader.collect();
    const bool isDone =
        llvm::any_of(step->getBody().getOps<StoreStartOp>(), [](StoreStartOp start) {
          return isa<RankedTensorType>(start.getValue().getType());
        });
    int64_t numGroups = 0;
    for (auto [index, group] : llvm::enumerate(step->groups)) {
      mark(group, offloader.hasActivations(index), !isDone && !isBesideTrained(*step, group));
      numGroups += group.areActivationsOnHost();
    }
    offloader.run([&](unsigned group) {
      return group < step->groups.size() && step->groups[group].areActivationsOnHost();
    });
    remark::analysis(module.getLoc(), remark::RemarkOpts::name("offload").category(getArgument()))
        << remark::metric("OffloadedGroups", numGroups)
        << remark::metric("OffloadedActivations", offloader.numOffloaded)
        << remark::metric("OffloadedBytes", offloader.offloadedBytes);
  }

private:
  /// True for a group of frozen parameters if another group has the trained ones of the same
  /// modules.
  static bool isBesideTrained(Step &step, GroupOp group) {
    return step.getTrained(group).empty() && llvm::any_of(step.groups, [&](GroupOp other) {
             return !step.getTrained(other).empty() && other.getModules() == group.getModules();
           });
  }

  /// Marks the group. A group that a search has marked stays marked, unless none of its activations
  /// can wait. `isTold`: whether to record that a group has no such activations.
  void mark(GroupOp group, bool hasActivations, bool isTold) {
    std::optional<bool> request = group.getOffloadActivations();
    const bool isMarked = group.areActivationsOnHost();
    const bool isAsked = request.value_or(activations == OffloadPolicy::All && group.isBlock());
    if (isAsked && hasActivations)
      group.setActivations(StatePlace::Host);
    else if (isTold && isMarked && !hasActivations)
      group.removeActivationsAttr();
    if (isTold && !hasActivations && (request == true || isMarked))
      recordDecision(group,
                     {Subject::Activations, "keeps its activations in the arena",
                      "nothing of its forward waits long enough for its backward"},
                     getArgument());
  }
};
} // namespace
