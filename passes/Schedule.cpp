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

/// A gather of the backward.
struct Gather {
  AllGatherStartOp start;
  AllGatherWaitOp wait;
  unsigned position; // number of calls before it
};

/// A reduction with what must follow it.
struct Reduction {
  ReduceScatterStartOp start;
  ReduceScatterWaitOp wait;
  AllReduceWaitOp acrossWait; // null without replicas
  UpdateOp update;
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
  void prefetchBackward();
  void deferReductions();
  void apply();

  unsigned prefetched = 0;

private:
  struct GroupState {
    SmallVector<Gather> gathers; // of the backward, in order
    size_t issued = 0;           // how many of them have been started
    bool isGathered = false;
    SmallVector<unsigned> postForwards; // places in the order of post-forwards
  };

  void prefetch(unsigned target, const Hook &hook, Gather *own);

  Step &step;
  ArrayRef<Hook> hooks;
  SmallVector<GroupState> groups;
  SmallVector<Reduction> reductions;
  SquareSumOp squareSum; // null: gradients are not clipped
  SmallVector<Move> moves;
};

} // namespace

LogicalResult Scheduler::collect() {
  unsigned position = 0;
  DenseMap<Value, Gather> open;
  for (Operation &op : step.getBody()) {
    if (isa<CallOp>(op)) {
      ++position;
    } else if (auto start = dyn_cast<AllGatherStartOp>(op)) {
      open[start.getHandle()] = {start, {}, position};
      unsigned group = step.groupByName.lookup(start.getGroupAttr().getAttr());
      // Kept into the backward, unless a reshard of the forward follows.
      groups[group].isGathered |= start.getPhase() == Phase::Forward;
    } else if (auto wait = dyn_cast<AllGatherWaitOp>(op)) {
      Gather &gather = open[wait.getHandle()];
      gather.wait = wait;
      unsigned group = step.groupByName.lookup(gather.start.getGroupAttr().getAttr());
      if (gather.start.getPhase() == Phase::Backward)
        groups[group].gathers.push_back(gather);
    } else if (auto reshard = dyn_cast<ReshardOp>(op)) {
      AllGatherStartOp start = reshard.getStart();
      unsigned group = step.groupByName.lookup(start.getGroupAttr().getAttr());
      if (reshard.getPhase() == Phase::Forward)
        groups[group].isGathered = false;
    } else if (auto start = dyn_cast<ReduceScatterStartOp>(op)) {
      AllReduceStartOp across = start.getAcross();
      reductions.push_back({start, start.getWait(), across ? across.getWait() : AllReduceWaitOp(),
                            start.getUpdate()});
    } else if (auto sum = dyn_cast<SquareSumOp>(op)) {
      squareSum = sum;
    }
  }
  for (Reduction &reduction : reductions)
    if (!reduction.wait || !reduction.update)
      return reduction.start.emitError("the reduction of group ")
             << reduction.start.getGroupAttr() << " has no " << (reduction.wait ? "update" : "wait")
             << " after it";
  return success();
}

/// What FSDP2's prefetch does at `hook`: unshards `target` unless it is unsharded already. `own` is
/// the gather that `hook` waits for, if it has one.
void Scheduler::prefetch(unsigned target, const Hook &hook, Gather *own) {
  GroupState &state = groups[target];
  if (state.isGathered || state.issued == state.gathers.size())
    return;
  Gather &gather = state.gathers[state.issued++];
  state.isGathered = true;
  // Begins at the same place: it is in order as it stands.
  if (gather.position == hook.position)
    return;
  moves.push_back({gather.start, own ? own->wait.getOperation() : nullptr, hook.before});
  ++prefetched;
}

void Scheduler::prefetchBackward() {
  SmallVector<unsigned> postForwards;
  for (const Hook &hook : hooks) {
    GroupState &state = groups[hook.group];
    switch (hook.kind) {
    case HookKind::PreForward:
      break;
    case HookKind::PostForward:
      state.postForwards.push_back(postForwards.size());
      postForwards.push_back(hook.group);
      break;
    case HookKind::PreBackward: {
      if (!state.isGathered && state.issued < state.gathers.size()) {
        ++state.issued;
        state.isGathered = true;
      }
      Gather *own = state.issued ? &state.gathers[state.issued - 1] : nullptr;
      if (state.postForwards.empty())
        break;
      unsigned place = state.postForwards.pop_back_val();
      if (place > 0)
        prefetch(postForwards[place - 1], hook, own);
      break;
    }
    case HookKind::PostBackward:
      state.isGathered = false;
      break;
    }
  }
}

/// The gradients of one reduction are in memory at a time. Replicas are waited for a reduction
/// later: they go on while the next group is reduced. Updates that clip stay behind all reductions.
void Scheduler::deferReductions() {
  Operation *end = squareSum ? squareSum.getOperation() : step.getBody().getTerminator();
  auto getStart = [&](size_t index) {
    return index < reductions.size() ? reductions[index].start.getOperation() : end;
  };
  for (auto [index, reduction] : llvm::enumerate(reductions)) {
    moves.push_back({reduction.wait, nullptr, getStart(index + 1)});
    Operation *before = getStart(index + (reduction.acrossWait ? 2 : 1));
    if (reduction.acrossWait)
      moves.push_back({reduction.acrossWait, nullptr, before});
    if (!squareSum)
      moves.push_back({reduction.update, nullptr, before});
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
      scheduler.prefetchBackward();
    scheduler.deferReductions();
    scheduler.apply();
    overlapStateCopies(step->getBody());
    remark::analysis(module.getLoc(), remark::RemarkOpts::name("schedule").category(getArgument()))
        << remark::metric("PrefetchedGathers", scheduler.prefetched);
  }

private:
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
