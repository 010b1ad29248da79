//===- Schedule.cpp - The order of issue ----------------------------------===//
//
// Decides all moves on the order of the sharded step, then moves the operations, so that the order
// of two operations is never asked for while it changes.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/GroupHooks.h"
#include "fsdp/Config/ShardingConfig.h"
#include "fsdp/Transforms/OverlapStateCopies.h"
#include "mlir/IR/Remarks.h"
#include "passes/Passes.h"

#include <deque>

namespace fsdp {
#define GEN_PASS_DEF_SCHEDULE
#include "passes/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;
using aten::CallOp;
using aten::Phase;

namespace {

/// A gather with its position in the sharded step.
struct Gather {
  AllGatherStartOp start;
  AllGatherWaitOp wait;
  unsigned position; // number of calls before it
  int64_t microbatch = 0;
  bool isResharded = false; // after the forward
};

/// A reduction and the operations on its result: a reduce-scatter, or a pack, which has no wait,
/// whose result is reduced over the replicas.
struct Reduction {
  Operation *start;
  ReduceScatterWaitOp wait;
  int64_t microbatch;
  /// Operations after the wait, and after the wait for the replicas: accumulations and updates.
  SmallVector<Operation *> afterWait, afterAcross;
};

/// Moves `op` directly after `after`, or, if that is null, directly before `before`.
struct Move {
  Operation *op, *after, *before;
};

/// A hook as a place for starts: after `last`, the last wait or start at this hook so far, or
/// before `before` if `last` is null.
struct Place {
  Operation *last, *before;
  unsigned position; // number of calls before it
  unsigned group;
};

/// On a device the host is far ahead. In the forward, torch's stream of gathers then waits, before
/// the gather for a use, only for the work that precedes the last use but one. If a prefetch list
/// of the last use's module issues the gather, the stream waits for the work that precedes the last
/// use (`wait_for_unshard`).
constexpr size_t kUsesAhead = 2, kUsesAheadByList = 1;

class Scheduler {
public:
  Scheduler(Step &step, ArrayRef<Hook> hooks)
      : step(step), hooks(hooks), groups(step.groups.size()) {}
  LogicalResult collect();
  void prefetch(Target target);
  void deferReductions();
  void apply();

  unsigned prefetched = 0;

private:
  struct GroupState {
    SmallVector<Gather> gathers; // in order
    size_t issued = 0;           // how many of them have been started
    bool isGathered = false;
    bool isAhead = false;  // gathered by a prefetch, and not waited for yet
    size_t firstPlace = 0; // index into `forward` of the first hook at which the group is resharded
    SmallVector<unsigned> postForwards; // its indices in the microbatch's order of post-forwards
  };

  void collectGathers();
  void collectReduction(Operation *start, int64_t microbatch);
  Operation *unshard(GroupState &state);
  void preForward(const Hook &hook, Target target);
  void preBackward(const Hook &hook);
  Place &placeInForward(const GroupState &state, size_t usesAhead);
  void start(Gather &gather, Place &place);
  Gather *issuePrefetch(unsigned target, const Hook &hook);
  void beginMicrobatch(int64_t number);
  void beginUnit(int64_t number);
  /// The operation with which the next microbatch begins; null after the last.
  Operation *getEnd(int64_t microbatch);

  Step &step;
  ArrayRef<Hook> hooks;
  SmallVector<GroupState> groups;
  const bool isInterleaved = step.isInterleaved();
  // State of the current microbatch or unit:
  int64_t unit = 0;
  // Groups in the order of post-forwards; of the whole step if it is interleaved.
  SmallVector<unsigned> postForwards;
  std::deque<Place> forward; // for each pre-forward hook
  size_t lastPlace = 0; // index into `forward` of the latest start, since gathers keep their order

  SmallVector<Reduction> reductions;
  SmallVector<Operation *> begins; // first operations of the microbatches
  PartialNormOp norm;              // null: gradients are not clipped
  SmallVector<Move> moves;
};

} // namespace

static std::optional<StepRole> getRole(Operation *op) {
  auto inStep = dyn_cast<StepOpInterface>(op);
  return inStep ? std::optional(inStep.getRole()) : std::nullopt;
}

static bool isHostCopy(std::optional<StepRole> role) {
  return role == StepRole::FetchStart || role == StepRole::FetchWait ||
         role == StepRole::StoreStart || role == StepRole::StoreWait;
}

/// True for packed gradients that are whole on this rank and are reduced over the replicas, as
/// gradients of a single microbatch are.
static bool isReducedAcross(Operation &op) {
  auto pack = dyn_cast<PackOp>(op);
  return pack && llvm::any_of(pack.getResult().getUsers(),
                              [](Operation *user) { return isa<AllReduceStartOp>(user); });
}

/// The first reader of the reduced shard; null if there is none.
static Operation *getReader(Reduction &reduction) {
  for (ArrayRef<Operation *> after :
       {ArrayRef(reduction.afterWait), ArrayRef(reduction.afterAcross)})
    for (Operation *op : after)
      if (getRole(op) == StepRole::Reader)
        return op;
  return nullptr;
}

/// Collects the operations that `fsdp-insert-collectives` has inserted after the reduction.
void Scheduler::collectReduction(Operation *start, int64_t microbatch) {
  auto scatter = dyn_cast<ReduceScatterStartOp>(start);
  Reduction reduction{
      start, scatter ? scatter.getWait() : ReduceScatterWaitOp(), microbatch, {}, {}};
  bool isAcross = false;
  for (Operation *op = start->getNextNode(); op; op = op->getNextNode()) {
    if (op == reduction.wait ||
        (isa<AllReduceStartOp>(op) && op->getOperand(0) == start->getResult(0)))
      continue; // the all-reduce goes on without the compute stream
    const std::optional<StepRole> role = getRole(op);
    if (isHostCopy(role))
      continue; // these follow the update
    if (role != StepRole::Reader && !isa<AllReduceStartOp, AllReduceWaitOp>(op))
      break;
    isAcross |= isa<AllReduceWaitOp>(op);
    (isAcross ? reduction.afterAcross : reduction.afterWait).push_back(op);
  }
  reductions.push_back(std::move(reduction));
}

/// Collects the gathers of all groups, each with the microbatch whose calls follow it.
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
        // After the end of the previous microbatch; the gathers before this operation belong to the
        // new one.
        Operation *begin = &op;
        while (begin->getPrevNode() && isa<AllGatherStartOp, AllGatherWaitOp>(begin->getPrevNode()))
          begin = begin->getPrevNode();
        begins.push_back(begin);
      }
    } else if (isa<ReduceScatterStartOp>(op) || isReducedAcross(op)) {
      collectReduction(&op, static_cast<int64_t>(begins.size()) - 1);
    } else if (auto sum = dyn_cast<PartialNormOp>(op)) {
      norm = sum;
    }
  }
  for (Reduction &reduction : reductions) {
    auto scatter = dyn_cast<ReduceScatterStartOp>(reduction.start);
    bool isAwaited = !scatter || reduction.wait;
    if (!isAwaited || (!norm && begins.size() < 2 && !getReader(reduction)))
      return reduction.start->emitError("the reduction of group ")
             << reduction.start->getAttr("group") << " has no " << (isAwaited ? "update" : "wait")
             << " after it";
  }
  return success();
}

/// The first action of FSDP2's hooks: unshards the group unless it is unsharded. Returns the wait
/// at the hook; null if there is none.
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

/// The place where the gather that the last hook issues may begin on a device.
Place &Scheduler::placeInForward(const GroupState &state, size_t usesAhead) {
  const size_t last = forward.size() - 1;
  lastPlace = std::max({lastPlace, state.firstPlace, last - std::min(last, usesAhead)});
  return forward[lastPlace];
}

void Scheduler::start(Gather &gather, Place &place) {
  // If the place is the same, the gather is in order already.
  if (gather.position != place.position) {
    moves.push_back({gather.start, place.last, place.before});
    ++prefetched;
  }
  place.last = gather.start;
}

/// FSDP2's prefetch at `hook`: unshards `target` unless it is unsharded already. Where FSDP2 would
/// gather in vain, the step has no gather, and this returns null. If microbatches are interleaved,
/// an early gather serves the next use, of whichever microbatch.
Gather *Scheduler::issuePrefetch(unsigned target, const Hook &hook) {
  GroupState &state = groups[target];
  if (state.isGathered || state.issued == state.gathers.size() ||
      (!isInterleaved && state.gathers[state.issued].microbatch != hook.microbatch))
    return nullptr;
  Gather &gather = state.gathers[state.issued++];
  state.isGathered = state.isAhead = true;
  return &gather;
}

void Scheduler::preForward(const Hook &hook, Target target) {
  GroupState &state = groups[hook.group];
  const size_t issuedBefore = state.issued;
  Operation *own = unshard(state);
  // The trained and the frozen parameters of modules may be two groups here. FSDP2 has one group
  // for both, and one hook, so starts go after the second group's wait, if it has one.
  if (!forward.empty() && forward.back().position == hook.position &&
      step.groups[forward.back().group].getModules() == step.groups[hook.group].getModules()) {
    if (own)
      forward.back().last = own;
  } else {
    forward.push_back({own, hook.before, hook.position, hook.group});
  }
  if (target == Target::Cuda && state.issued > issuedBefore)
    start(state.gathers[issuedBefore], placeInForward(state, kUsesAhead));
  ArrayAttr targets = step.groups[hook.group].getForwardPrefetchAttr();
  if (!targets)
    return;
  for (auto symbol : targets.getAsRange<FlatSymbolRefAttr>()) {
    const unsigned group = step.groupByName.lookup(symbol.getAttr());
    Gather *gather = issuePrefetch(group, hook);
    if (!gather)
      continue;
    gather->start.setPhase(Phase::Forward);
    start(*gather, target == Target::Cuda ? placeInForward(groups[group], kUsesAheadByList)
                                          : forward.back());
  }
}

void Scheduler::preBackward(const Hook &hook) {
  GroupState &state = groups[hook.group];
  Place place{unshard(state), hook.before, hook.position, hook.group};
  auto prefetch = [&](unsigned group) {
    if (Gather *gather = issuePrefetch(group, hook)) {
      gather->start.setPhase(Phase::Backward);
      start(*gather, place);
    }
  };
  // Explicit lists replace the implicit order.
  if (ArrayAttr targets = step.groups[hook.group].getBackwardPrefetchAttr();
      targets && !targets.empty()) {
    for (auto symbol : targets.getAsRange<FlatSymbolRefAttr>())
      prefetch(step.groupByName.lookup(symbol.getAttr()));
  } else if (!state.postForwards.empty()) {
    if (unsigned place = state.postForwards.pop_back_val(); place > 0)
      prefetch(postForwards[place - 1]);
  }
}

/// FSDP2 forgets the order at the end of each backward.
void Scheduler::beginMicrobatch(int64_t number) {
  beginUnit(number);
  postForwards.clear();
  for (GroupState &state : groups)
    state.postForwards.clear();
}

/// The stages of 1f1b share one order (`share_comm_ctx`), which FSDP2 forgets when all backwards
/// have run. The stream of gathers waits for the work before the forward of a stage, as it does for
/// the work before a microbatch.
void Scheduler::beginUnit(int64_t number) {
  unit = number;
  lastPlace = 0;
  forward.clear();
  for (GroupState &state : groups)
    state.firstPlace = 0;
}

void Scheduler::prefetch(Target target) {
  for (const Hook &hook : hooks) {
    if (hook.unit != unit)
      isInterleaved ? beginUnit(hook.unit) : beginMicrobatch(hook.unit);
    GroupState &state = groups[hook.group];
    switch (hook.kind) {
    case HookKind::PreForward:
      preForward(hook, target);
      break;
    case HookKind::PostForward:
      if (state.issued > 0 && state.gathers[state.issued - 1].isResharded) {
        state.isGathered = false;
        state.firstPlace = forward.size();
      }
      state.postForwards.push_back(postForwards.size());
      postForwards.push_back(hook.group);
      break;
    case HookKind::PreBackward:
      preBackward(hook);
      break;
    case HookKind::PostBackward:
      // A group that is gathered for a later use stays gathered.
      if (!state.isAhead)
        state.isGathered = state.isGathered &&
                           !step.groups[hook.group].getReshardAfterBackward().value_or(true) &&
                           hook.microbatch + 1 < static_cast<int64_t>(begins.size());
      break;
    }
  }
}

Operation *Scheduler::getEnd(int64_t microbatch) {
  size_t next = static_cast<size_t>(microbatch) + 1;
  return next < begins.size() ? begins[next] : nullptr;
}

/// Moves waits and updates so that the gradients of one reduction are in memory at a time. The
/// all-reduce over replicas has its wait one reduction later, so it overlaps the reduction of the
/// next group. No reduction is pending at the end of a microbatch, unless microbatches are
/// interleaved: then the last reduction of a backward overlaps the forward of another stage.
/// Updates that clip stay after all reductions.
void Scheduler::deferReductions() {
  Operation *end = norm ? norm.getOperation() : step.getBody().getTerminator();
  auto getStart = [&](size_t own, size_t index) -> Operation * {
    int64_t microbatch = reductions[own].microbatch;
    if (index < reductions.size() && (isInterleaved || reductions[index].microbatch == microbatch))
      return reductions[index].start;
    Operation *next = isInterleaved ? nullptr : getEnd(microbatch);
    return next ? next : end;
  };
  for (auto [index, reduction] : llvm::enumerate(reductions)) {
    Operation *next = getStart(index, index + 1), *second = getStart(index, index + 2);
    if (reduction.wait)
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
      scheduler.prefetch(getTarget(module));
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
