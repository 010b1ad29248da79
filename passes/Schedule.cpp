//===- Schedule.cpp - The order of issue ----------------------------------===//
//
// Decides on the order that the sharded step has, then moves operations, and asks for no order in
// between.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/GroupHooks.h"
#include "fsdp/Config/ShardingConfig.h"
#include "fsdp/Transforms/OverlapStateCopies.h"
#include "mlir/IR/Remarks.h"
#include "passes/Passes.h"

namespace fsdp {
#define GEN_PASS_DEF_SCHEDULE
#include "passes/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;
using aten::CallOp;
using aten::Phase;

namespace {

/// A gather with its place in the sharded step.
struct Gather {
  AllGatherStartOp start;
  AllGatherWaitOp wait;
  unsigned position; // number of calls before it
  int64_t microbatch = 0;
  bool isResharded = false; // after the forward
};

/// A reduction with what the sharded step does with its result.
struct Reduction {
  ReduceScatterStartOp start;
  ReduceScatterWaitOp wait;
  int64_t microbatch;
  /// Behind the wait, and behind those that wait for the replicas, too: accumulations, updates.
  SmallVector<Operation *> afterWait, afterAcross;
};

/// `op` moves right behind `after`, or, if that is null, right before `before`.
struct Move {
  Operation *op, *after, *before;
};

class Scheduler {
public:
  Scheduler(Step &step, ArrayRef<Hook> hooks)
      : step(step), hooks(hooks), groups(step.groups.size()) {}
  LogicalResult collect();
  void prefetch();
  void deferReductions();
  void apply();

  unsigned prefetched = 0;

private:
  struct GroupState {
    SmallVector<Gather> gathers; // in order
    size_t issued = 0;           // how many of them have been started
    bool isGathered = false;
    bool isAhead = false;               // gathered by a prefetch; nobody has waited for it yet
    SmallVector<unsigned> postForwards; // places in the order of the microbatch's post-forwards
  };

  void collectGathers();
  void collectReduction(ReduceScatterStartOp start, int64_t microbatch);
  Operation *unshard(GroupState &state);
  void prefetch(unsigned target, const Hook &hook, Operation *&after);
  void prefetch(ArrayAttr targets, const Hook &hook, Operation *after);
  /// Where the microbatch behind this one begins; null behind the last.
  Operation *getEnd(int64_t microbatch);

  Step &step;
  ArrayRef<Hook> hooks;
  SmallVector<GroupState> groups;
  SmallVector<Reduction> reductions;
  SmallVector<Operation *> begins; // of the microbatches
  PartialNormOp norm;              // null: gradients are not clipped
  SmallVector<Move> moves;
};

} // namespace

/// What reads the reduced shard; null if nothing does.
static Operation *getReader(Reduction &reduction) {
  for (ArrayRef<Operation *> after :
       {ArrayRef(reduction.afterWait), ArrayRef(reduction.afterAcross)})
    for (Operation *op : after)
      if (isa<CastOp, AccumulateOp, UpdateOp>(op))
        return op;
  return nullptr;
}

/// What `fsdp-insert-collectives` has put behind the reduction.
void Scheduler::collectReduction(ReduceScatterStartOp start, int64_t microbatch) {
  Reduction reduction{start, start.getWait(), microbatch, {}, {}};
  bool isAcross = false;
  for (Operation *op = start->getNextNode(); op; op = op->getNextNode()) {
    if (op == reduction.wait ||
        (isa<AllReduceStartOp>(op) && op->getOperand(0) == start.getHandle()))
      continue; // the latter goes on without the compute stream
    if (isa<FetchStateStartOp, FetchStateWaitOp, StoreStateStartOp, StoreStateWaitOp>(op))
      continue; // they follow the update
    if (!isa<AllReduceStartOp, AllReduceWaitOp, CastOp, AccumulateOp, UpdateOp>(op))
      break;
    auto sum = dyn_cast<AccumulateOp>(op);
    if (sum && !isa<ShardType>(sum.getType()))
      break;
    isAcross |= isa<AllReduceWaitOp>(op);
    (isAcross ? reduction.afterAcross : reduction.afterWait).push_back(op);
  }
  reductions.push_back(std::move(reduction));
}

/// The gathers of all groups, each with the microbatch whose calls follow it.
void Scheduler::collectGathers() {
  unsigned position = 0;
  SmallVector<std::pair<GroupState *, size_t>> sinceCall;
  for (Operation &op : step.getBody()) {
    if (auto call = dyn_cast<CallOp>(op)) {
      ++position;
      for (auto [group, index] : sinceCall)
        group->gathers[index].microbatch = call.getMicrobatch();
      sinceCall.clear();
    } else if (auto wait = dyn_cast<AllGatherWaitOp>(op)) {
      AllGatherStartOp start = wait.getStart();
      GroupState &group = groups[step.groupByName.lookup(start.getGroupAttr().getAttr())];
      sinceCall.push_back({&group, group.gathers.size()});
      group.gathers.push_back({start, wait, position});
    } else if (auto reshard = dyn_cast<ReshardOp>(op)) {
      AllGatherStartOp start = reshard.getStart();
      GroupState &group = groups[step.groupByName.lookup(start.getGroupAttr().getAttr())];
      // At most one gather of a group is open at a time.
      if (reshard.getPhase() == Phase::Forward)
        group.gathers.back().isResharded = true;
    }
  }
}

LogicalResult Scheduler::collect() {
  collectGathers();
  for (Operation &op : step.getBody()) {
    if (auto call = dyn_cast<CallOp>(op)) {
      if (static_cast<size_t>(call.getMicrobatch()) >= begins.size()) {
        // Behind what ends the microbatch before: the gathers that it begins with are its own.
        Operation *begin = &op;
        while (begin->getPrevNode() && isa<AllGatherStartOp, AllGatherWaitOp>(begin->getPrevNode()))
          begin = begin->getPrevNode();
        begins.push_back(begin);
      }
    } else if (auto start = dyn_cast<ReduceScatterStartOp>(op)) {
      collectReduction(start, static_cast<int64_t>(begins.size()) - 1);
    } else if (auto sum = dyn_cast<PartialNormOp>(op)) {
      norm = sum;
    }
  }
  for (Reduction &reduction : reductions)
    if (!reduction.wait || (!norm && begins.size() < 2 && !getReader(reduction)))
      return reduction.start.emitError("the reduction of group ")
             << reduction.start.getGroupAttr() << " has no " << (reduction.wait ? "update" : "wait")
             << " after it";
  return success();
}

/// What FSDP2's hooks do first: unshards the group unless that has been done. Returns the wait that
/// stands at the hook; null if there is none.
Operation *Scheduler::unshard(GroupState &state) {
  bool waits = state.isAhead;
  if (!state.isGathered && state.issued < state.gathers.size()) {
    ++state.issued;
    waits = true;
  }
  state.isGathered = true;
  state.isAhead = false;
  return waits ? state.gathers[state.issued - 1].wait.getOperation() : nullptr;
}

/// What FSDP2's prefetch does at `hook`: unshards `target` unless it is unsharded already, behind
/// `after`, or, if that is null, before `hook`. Where FSDP2 would gather in vain, the step has
/// no gather, and nothing is done.
void Scheduler::prefetch(unsigned target, const Hook &hook, Operation *&after) {
  GroupState &state = groups[target];
  if (state.isGathered || state.issued == state.gathers.size() ||
      state.gathers[state.issued].microbatch != hook.microbatch)
    return;
  Gather &gather = state.gathers[state.issued++];
  state.isGathered = state.isAhead = true;
  if (hook.kind == HookKind::PreForward)
    gather.start.setPhase(Phase::Forward);
  // Begins at the same place: it is in order as it stands.
  if (gather.position != hook.position) {
    moves.push_back({gather.start, after, hook.before});
    ++prefetched;
  }
  after = gather.start;
}

/// An explicit list, in its order.
void Scheduler::prefetch(ArrayAttr targets, const Hook &hook, Operation *after) {
  for (auto target : targets.getAsRange<FlatSymbolRefAttr>())
    prefetch(step.groupByName.lookup(target.getAttr()), hook, after);
}

void Scheduler::prefetch() {
  SmallVector<unsigned> postForwards;
  int64_t microbatch = 0;
  for (const Hook &hook : hooks) {
    if (hook.microbatch != microbatch) {
      // FSDP2 forgets the order at the end of each backward.
      microbatch = hook.microbatch;
      postForwards.clear();
      for (GroupState &state : groups)
        state.postForwards.clear();
    }
    GroupState &state = groups[hook.group];
    GroupOp group = step.groups[hook.group];
    switch (hook.kind) {
    case HookKind::PreForward: {
      Operation *own = unshard(state);
      if (ArrayAttr targets = group.getForwardPrefetchAttr())
        prefetch(targets, hook, own);
      break;
    }
    case HookKind::PostForward:
      if (state.issued > 0 && state.gathers[state.issued - 1].isResharded)
        state.isGathered = false;
      state.postForwards.push_back(postForwards.size());
      postForwards.push_back(hook.group);
      break;
    case HookKind::PreBackward: {
      Operation *own = unshard(state);
      // Explicit lists take the place of the implicit order.
      if (ArrayAttr targets = group.getBackwardPrefetchAttr(); targets && !targets.empty()) {
        prefetch(targets, hook, own);
      } else if (!state.postForwards.empty()) {
        unsigned place = state.postForwards.pop_back_val();
        if (place > 0)
          prefetch(postForwards[place - 1], hook, own);
      }
      break;
    }
    case HookKind::PostBackward:
      state.isGathered = !group.getReshardAfterBackward().value_or(true) &&
                         microbatch + 1 < static_cast<int64_t>(begins.size());
      break;
    }
  }
}

Operation *Scheduler::getEnd(int64_t microbatch) {
  size_t next = static_cast<size_t>(microbatch) + 1;
  return next < begins.size() ? begins[next] : nullptr;
}

/// The gradients of one reduction are in memory at a time. Replicas are waited for a reduction
/// later: they go on while the next group is reduced. Nothing is left for the next microbatch.
/// Updates that clip stay behind all reductions.
void Scheduler::deferReductions() {
  Operation *end = norm ? norm.getOperation() : step.getBody().getTerminator();
  auto getStart = [&](size_t own, size_t index) -> Operation * {
    int64_t microbatch = reductions[own].microbatch;
    if (index < reductions.size() && reductions[index].microbatch == microbatch)
      return reductions[index].start;
    Operation *next = getEnd(microbatch);
    return next ? next : end;
  };
  for (auto [index, reduction] : llvm::enumerate(reductions)) {
    Operation *next = getStart(index, index + 1), *second = getStart(index, index + 2);
    moves.push_back({reduction.wait, nullptr, next});
    for (Operation *op : reduction.afterWait)
      moves.push_back({op, nullptr, next});
    for (Operation *op : reduction.afterAcross)
      moves.push_back({op, nullptr, second});
  }
}

void Scheduler::apply() {
  for (const Move &move : moves) {
    if (move.after)
      move.op->moveAfter(move.after);
    else
      move.op->moveBefore(move.before);
  }
  setPhase(step.module, ModulePhase::Scheduled);
}

namespace {
struct SchedulePass : public fsdp::impl::ScheduleBase<SchedulePass> {
  using ScheduleBase::ScheduleBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(expectPhase(module, getArgument(), ModulePhase::Sharded)))
      return signalPassFailure();
    std::optional<Prefetch> order = getOrder(module);
    FailureOr<Step> step = Step::collect(module);
    if (!order || failed(step))
      return signalPassFailure();
    FailureOr<SmallVector<Hook>> hooks = findHooks(*step);
    if (failed(hooks))
      return signalPassFailure();
    Scheduler scheduler(*step, *hooks);
    if (failed(scheduler.collect()))
      return signalPassFailure();
    if (*order == Prefetch::Fsdp2)
      scheduler.prefetch();
    else if (failed(expectNoLists(*step)))
      return signalPassFailure();
    scheduler.deferReductions();
    scheduler.apply();
    overlapStateCopies(step->getBody());
    remark::analysis(module.getLoc(), remark::RemarkOpts::name("schedule").category(getArgument()))
        << remark::metric("PrefetchedGathers", scheduler.prefetched);
  }

private:
  LogicalResult expectNoLists(Step &step) {
    for (GroupOp group : step.groups)
      if (group.getForwardPrefetch() || group.getBackwardPrefetch())
        return group.emitError("group @")
               << group.getSymName() << " has a list of groups to prefetch, but prefetch is none";
    return success();
  }

  std::optional<Prefetch> getOrder(ModuleOp module) {
    if (!prefetch.empty()) {
      llvm::Expected<Prefetch> chosen = parsePrefetch(prefetch);
      if (chosen)
        return *chosen;
      module.emitError(llvm::toString(chosen.takeError()));
      return std::nullopt;
    }
    auto chosen = module->getAttrOfType<PrefetchAttr>(FsdpDialect::getPrefetchAttrName());
    return chosen ? chosen.getValue() : Prefetch::Fsdp2;
  }
};
} // namespace
