//===- InsertCollectives.cpp - Gather, reshard and reduce each group ------===//
//
// One walk over the step with the hooks of all groups beside it. Linear: nothing here asks for the
// order of operations, whose cache every insertion would invalidate.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/GroupHooks.h"
#include "fsdp/Analysis/Provenance.h"
#include "fsdp/IR/AtenBuilders.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Remarks.h"
#include "passes/Passes.h"

namespace fsdp {
#define GEN_PASS_DEF_INSERTCOLLECTIVES
#include "passes/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;
using aten::CallOp;
using aten::Phase;

namespace {

/// Where a group stands while the step is walked.
struct GroupState {
  Value shard;             // what is gathered
  AllGatherStartOp gather; // null while resharded
  AllGatherWaitOp wait;
  bool reshardAfterForward = false;
  SmallVector<Value> gradients; // of the microbatch, by position in the group
  SmallVector<Value> wholeSums; // of the microbatches so far that were not reduced
  Value shardSum;               // of those that were
  /// What stands, since the last gather, for a parameter or a view of one that the capture made.
  DenseMap<Value, Value> current;
};

class Inserter {
public:
  Inserter(Step &step, ArrayRef<Hook> hooks)
      : step(step), hooks(hooks), states(step.groups.size()), builder(step.module.getContext()),
        handleType(HandleType::get(step.module.getContext())) {}
  LogicalResult run();

  struct Counts {
    unsigned allGathers = 0, reshards = 0, reduceScatters = 0, allReduces = 0, viewsRecomputed = 0;
  } counts;

private:
  LogicalResult prepare();
  Value declareShard(GroupOp group);
  LogicalResult runHook(const Hook &hook, Operation *before);
  void gather(unsigned group, Phase phase);
  void reshard(unsigned group, Phase phase);
  /// This rank's shard of the group's gradients, averaged over the ranks of the shard axis, and
  /// over the replicas if there are any and `isAcross`.
  Value reduceGradients(GroupOp group, ValueRange gradients, bool isAcross);
  Value reduceAcross(GroupOp group, Value source, Type type);
  /// Adds what a microbatch brought to what those before it did.
  void addWhole(GroupState &state);
  void addShard(GroupState &state, GroupOp group, Value shard);
  LogicalResult reduce(unsigned group, int64_t microbatch);
  void update(GroupOp group, Value gradient, Value clip);
  void clipAndUpdate();
  LogicalResult visit(Operation *op);
  LogicalResult remapOperands(Operation *op);
  Value getCurrent(Value value, GroupMember member, Phase phase);

  Step &step;
  ArrayRef<Hook> hooks;
  SmallVector<GroupState> states;
  OpBuilder builder;
  Type handleType;
  bool isSharded = false;    // over more than one rank
  bool isReplicated = false; // more than once
  int64_t lastMicrobatch = 0;
  Value number, rate;                             // of the update
  SmallVector<std::pair<GroupOp, Value>> reduced; // in order, with the shard's gradient
  /// The parameter that a captured value is or is a view of.
  DenseMap<Value, GroupMember> origin;
  DenseMap<Operation *, Value> viewBase; // what the capture made the view of
  SmallVector<Operation *> replaced;     // reads, gradients and updates, erased at the end
};

} // namespace

//===----------------------------------------------------------------------===//
// Collect
//===----------------------------------------------------------------------===//

LogicalResult Inserter::prepare() {
  isSharded = step.getRanks() > 1;
  isReplicated = step.getReplicas() > 1;
  if (isReplicated && !isSharded)
    return step.mesh.emitError("holds ")
           << step.getReplicas() << " replicas of parameters that are not sharded; shard them over "
           << "an axis of more than one rank";
  for (auto [index, group] : llvm::enumerate(step.groups)) {
    Reshard choice = group.getReshardAfterForward();
    states[index].reshardAfterForward = choice == Reshard::Always || choice == Reshard::Auto ||
                                        (choice == Reshard::None && !group.isRoot());
    states[index].gradients.resize(step.getTrained(group).size());
  }
  for (ParamOp param : step.params)
    if (!step.memberByParam.contains(param.getSymNameAttr()))
      return param.emitError("parameter @") << param.getSymName() << " is in no group";

  // Updates move up to their groups' reductions: inputs must be above them.
  Block &body = step.getBody();
  for (auto call : body.getOps<CallOp>())
    lastMicrobatch = std::max(lastMicrobatch, call.getMicrobatch());
  SmallVector<InputOp> inputs(body.getOps<InputOp>());
  for (InputOp input : llvm::reverse(inputs))
    input->moveBefore(&body, body.begin());
  builder.setInsertionPointToStart(&body);
  if (!inputs.empty())
    builder.setInsertionPointAfter(inputs.back());
  if (isSharded)
    for (auto [group, state] : llvm::zip_equal(step.groups, states))
      if (!group.getParams().empty())
        state.shard = declareShard(group);
  for (UpdateOp update : body.getOps<UpdateOp>()) {
    number = update.getStep();
    rate = update.getLr();
  }
  if (!number && !step.params.empty())
    return step.function.emitError("no parameter is updated");
  return success();
}

/// The shard in the dtype that is gathered.
Value Inserter::declareShard(GroupOp group) {
  auto name = FlatSymbolRefAttr::get(group.getSymNameAttr());
  Type own = cast<RankedTensorType>(step.getParams(group).front().getType()).getElementType();
  Type dtype = group.getGatherDtype() ? Type(*group.getGatherDtype()) : own;
  return ShardOp::create(builder, group.getLoc(), ShardType::get(builder.getContext(), name, dtype),
                         name);
}

//===----------------------------------------------------------------------===//
// Hooks
//===----------------------------------------------------------------------===//

void Inserter::gather(unsigned index, Phase phase) {
  GroupState &state = states[index];
  GroupOp group = step.groups[index];
  SmallVector<Type> types = llvm::map_to_vector(step.getParams(group), [&](ParamOp param) -> Type {
    auto type = cast<RankedTensorType>(param.getType());
    return group.getGatherDtype() ? type.clone(*group.getGatherDtype()) : type;
  });
  Location loc = group.getLoc();
  state.gather = AllGatherStartOp::create(builder, loc, handleType, state.shard,
                                          builder.getArrayAttr(group.getAxisAttr()), phase,
                                          Stream::Compute, /*coalesced=*/nullptr,
                                          /*offset=*/nullptr);
  state.wait =
      AllGatherWaitOp::create(builder, loc, types, state.gather.getHandle(), /*offsets=*/nullptr);
  state.current.clear();
  ++counts.allGathers;
}

void Inserter::reshard(unsigned index, Phase phase) {
  GroupState &state = states[index];
  ReshardOp::create(builder, step.groups[index].getLoc(), state.gather.getHandle(), phase);
  state.gather = {};
  ++counts.reshards;
}

Value Inserter::reduceAcross(GroupOp group, Value source, Type type) {
  Location loc = group.getLoc();
  auto across = AllReduceStartOp::create(builder, loc, handleType, source,
                                         builder.getArrayAttr(group.getReplicateAxisAttr()),
                                         ReduceOp::Average, Phase::Backward, Stream::Compute,
                                         /*coalesced=*/nullptr);
  ++counts.allReduces;
  return AllReduceWaitOp::create(builder, loc, type, across.getHandle());
}

Value Inserter::reduceGradients(GroupOp group, ValueRange gradients, bool isAcross) {
  auto name = FlatSymbolRefAttr::get(group.getSymNameAttr());
  Location loc = group.getLoc();
  Type dtype = cast<RankedTensorType>(gradients.front().getType()).getElementType();
  auto type = ShardType::get(builder.getContext(), name, dtype);
  if (!isSharded)
    return PackOp::create(builder, loc, type, name, gradients, /*offset=*/nullptr);
  auto start = ReduceScatterStartOp::create(
      builder, loc, handleType, name, gradients, builder.getArrayAttr(group.getAxisAttr()),
      ReduceOp::Average, Phase::Backward, Stream::Compute, /*coalesced=*/nullptr,
      /*offsets=*/nullptr);
  Value shard = ReduceScatterWaitOp::create(builder, loc, type, start.getHandle());
  ++counts.reduceScatters;
  // On the handle: the compute stream need not wait in between.
  return isAcross ? reduceAcross(group, start.getHandle(), type) : shard;
}

/// True if nothing else sees the bytes of a gradient, so that others may be added there.
static bool isAlone(Value gradient) {
  auto call = gradient.getDefiningOp<CallOp>();
  auto type = cast<RankedTensorType>(gradient.getType());
  return call && !call.isView() && gradient.hasOneUse() && !type.getEncoding();
}

void Inserter::addWhole(GroupState &state) {
  MLIRContext *context = builder.getContext();
  bool isFirst = state.wholeSums.empty();
  for (auto [index, gradient] : llvm::enumerate(state.gradients)) {
    if (!isFirst) {
      Value &sum = state.wholeSums[index];
      sum = AccumulateOp::create(builder, gradient.getLoc(), sum.getType(), sum, gradient);
      continue;
    }
    if (!isAlone(gradient))
      gradient = aten::cloneContiguously(builder, gradient, Phase::Backward,
                                         aten::ScopeAttr::get(context, ""));
    state.wholeSums.push_back(gradient);
  }
}

void Inserter::addShard(GroupState &state, GroupOp group, Value shard) {
  Location loc = group.getLoc();
  if (state.shardSum) {
    state.shardSum =
        AccumulateOp::create(builder, loc, state.shardSum.getType(), state.shardSum, shard);
    return;
  }
  // Reduced gradients are added up in the parameters' dtype; what is still to be reduced over the
  // replicas as it is.
  Type own = cast<RankedTensorType>(step.getParams(group).front().getType()).getElementType();
  auto type = cast<ShardType>(shard.getType());
  bool isPartial = group.getGradientSync() == GradientSync::ReduceScatter;
  if (lastMicrobatch > 0 && !isPartial && type.getElementType() != own)
    shard = CastOp::create(builder, loc, ShardType::get(type.getContext(), type.getGroup(), own),
                           shard, /*offset=*/nullptr);
  state.shardSum = shard;
}

LogicalResult Inserter::reduce(unsigned index, int64_t microbatch) {
  GroupState &state = states[index];
  GroupOp group = step.groups[index];
  for (auto [param, gradient] : llvm::zip_equal(step.getTrained(group), state.gradients))
    if (!gradient)
      return param.emitError("parameter @")
             << param.getSymName() << " has no gradient, but is not frozen";
  if (state.gradients.empty())
    return success();
  GradientSync sync = group.getGradientSync().value_or(GradientSync::Each);
  bool isLast = microbatch == lastMicrobatch;
  if (lastMicrobatch > 0 && (sync == GradientSync::Last || !isSharded)) {
    addWhole(state);
    state.gradients.assign(state.gradients.size(), Value());
    if (!isLast)
      return success();
    state.gradients = state.wholeSums;
  }
  bool isPartial = sync == GradientSync::ReduceScatter && lastMicrobatch > 0;
  addShard(state, group, reduceGradients(group, state.gradients, isReplicated && !isPartial));
  state.gradients.assign(state.gradients.size(), Value());
  if (!isLast)
    return success();
  if (isPartial)
    state.shardSum = reduceAcross(group, state.shardSum, state.shardSum.getType());
  reduced.push_back({group, state.shardSum});
  if (!step.optimizer || !step.optimizer.getClipGradNorm())
    update(group, state.shardSum, /*clip=*/{});
  return success();
}

void Inserter::update(GroupOp group, Value gradient, Value clip) {
  UpdateOp::create(builder, group.getLoc(), FlatSymbolRefAttr::get(group.getSymNameAttr()),
                   gradient, number, rate, clip, /*state=*/Value());
}

/// The updates wait for the norm of all gradients.
void Inserter::clipAndUpdate() {
  Location loc = step.optimizer.getLoc();
  auto type = RankedTensorType::get({}, builder.getF64Type());
  auto gradients = llvm::map_to_vector(reduced, [](auto &entry) { return entry.second; });
  Value squares = SquareSumOp::create(builder, loc, type, gradients, /*offset=*/nullptr);
  if (isSharded) {
    GroupOp first = step.groups.front();
    auto start = AllReduceStartOp::create(builder, loc, handleType, squares,
                                          builder.getArrayAttr(first.getAxisAttr()), ReduceOp::Sum,
                                          Phase::Backward, Stream::Compute, /*coalesced=*/nullptr);
    squares = AllReduceWaitOp::create(builder, loc, type, start.getHandle());
    ++counts.allReduces;
  }
  Value clip = ClipFactorOp::create(builder, loc, builder.getF32Type(), squares);
  for (auto [group, gradient] : reduced)
    update(group, gradient, clip);
}

LogicalResult Inserter::runHook(const Hook &hook, Operation *before) {
  builder.setInsertionPoint(before);
  GroupState &state = states[hook.group];
  if (step.groups[hook.group].getParams().empty())
    return success();
  switch (hook.kind) {
  case HookKind::PreForward:
  case HookKind::PreBackward:
    if (isSharded && !state.gather)
      gather(hook.group, hook.kind == HookKind::PreForward ? Phase::Forward : Phase::Backward);
    return success();
  case HookKind::PostForward:
    if (state.gather && state.reshardAfterForward)
      reshard(hook.group, Phase::Forward);
    return success();
  case HookKind::PostBackward:
    if (state.gather && (step.groups[hook.group].getReshardAfterBackward().value_or(true) ||
                         hook.microbatch == lastMicrobatch))
      reshard(hook.group, Phase::Backward);
    return hook.isLast ? reduce(hook.group, hook.microbatch) : success();
  }
  llvm_unreachable("all kinds of hooks are handled");
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

/// What stands, since the last gather of its group, for `value`: a parameter, or a view that the
/// capture made of one. Views that were made before are made again where the builder
/// stands.
Value Inserter::getCurrent(Value value, GroupMember member, Phase phase) {
  GroupState &state = states[member.group];
  if (Value known = state.current.lookup(value))
    return known;
  auto view = value.getDefiningOp<CallOp>();
  if (!view)
    return state.current[value] = state.wait.getResult(member.position);
  Value base = getCurrent(viewBase.lookup(view), member, phase);
  auto again = cast<CallOp>(builder.clone(*view));
  again.setPhase(phase);
  again->setOperand(0, base);
  for (auto [from, to] : llvm::zip_equal(view.getResults(), again.getResults()))
    state.current[from] = to;
  ++counts.viewsRecomputed;
  return state.current.lookup(value);
}

LogicalResult Inserter::remapOperands(Operation *op) {
  auto call = dyn_cast<CallOp>(op);
  Phase phase = call ? call.getPhase() : Phase::Backward;
  for (OpOperand &operand : op->getOpOperands()) {
    auto it = origin.find(operand.get());
    if (it == origin.end())
      continue;
    GroupMember member = it->second;
    GroupOp group = step.groups[member.group];
    if (!states[member.group].gather) {
      InFlightDiagnostic diag = op->emitError("parameter ")
                                << group.getParams()[member.position]
                                << " is used while its group @" << group.getSymName()
                                << " is not gathered";
      if (call)
        diag << ", by module '" << call.getModule() << "'";
      diag.attachNote(group.getLoc())
          << "the group is gathered while the modules " << group.getModules()
          << " run; put all modules that use a parameter into its group";
      return diag;
    }
    if (call && call.isView() && operand.getOperandNumber() == 0)
      viewBase[call] = operand.get();
    builder.setInsertionPoint(op);
    operand.set(getCurrent(operand.get(), member, phase));
    if (viewBase.contains(op))
      for (Value result : op->getResults()) {
        origin[result] = member;
        states[member.group].current[result] = result;
      }
  }
  return success();
}

LogicalResult Inserter::visit(Operation *op) {
  if (auto grad = dyn_cast<GradOp>(op)) {
    if (isSharded && failed(remapOperands(op)))
      return failure();
    GroupMember member = step.memberByParam.lookup(grad.getParamAttr().getAttr());
    if (step.paramByName.lookup(grad.getParamAttr().getAttr()).getFrozen())
      return grad.emitError("parameter ")
             << grad.getParamAttr() << " is frozen, but has a gradient";
    Value &gradient = states[member.group].gradients[member.position];
    if (gradient)
      return grad.emitError("parameter ")
             << grad.getParamAttr() << " has two gradients in microbatch " << grad.getMicrobatch();
    gradient = grad.getValue();
    replaced.push_back(op);
    return success();
  }
  if (isa<UpdateOp>(op)) {
    replaced.push_back(op);
    return success();
  }
  if (!isSharded)
    return success();
  if (auto read = dyn_cast<ReadOp>(op)) {
    auto it = step.memberByParam.find(read.getSourceAttr().getAttr());
    if (it != step.memberByParam.end()) {
      origin[read.getResult()] = it->second;
      replaced.push_back(op);
    }
    return success();
  }
  return remapOperands(op);
}

//===----------------------------------------------------------------------===//
// The walk
//===----------------------------------------------------------------------===//

LogicalResult Inserter::run() {
  if (failed(prepare()))
    return failure();
  Operation *terminator = step.getBody().getTerminator();
  const Hook *hook = hooks.begin();
  // The operations are listed first: the walk inserts among them.
  for (Operation *op : llvm::map_to_vector(step.getBody(), [](Operation &op) { return &op; })) {
    if (op == terminator)
      break;
    for (; isa<CallOp>(op) && hook != hooks.end() && hook->before == op; ++hook)
      if (failed(runHook(*hook, op)))
        return failure();
    if (failed(visit(op)))
      return failure();
  }
  // The step's results are made before the groups of the end are resharded.
  if (isSharded && failed(remapOperands(terminator)))
    return failure();
  for (; hook != hooks.end(); ++hook)
    if (failed(runHook(*hook, terminator)))
      return failure();
  builder.setInsertionPoint(terminator);
  if (step.optimizer && step.optimizer.getClipGradNorm() && !reduced.empty())
    clipAndUpdate();
  for (Operation *op : llvm::reverse(replaced))
    op->erase();
  setPhase(step.module, ModulePhase::Sharded);
  return success();
}

namespace {
struct InsertCollectivesPass : public fsdp::impl::InsertCollectivesBase<InsertCollectivesPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(expectPhase(module, getArgument(), ModulePhase::Captured)))
      return signalPassFailure();
    FailureOr<Step> step = Step::collect(module);
    if (failed(step))
      return signalPassFailure();
    if (step->groups.empty()) {
      module.emitError("the module has no groups; run fsdp-group-parameters first");
      return signalPassFailure();
    }
    FailureOr<SmallVector<Hook>> hooks = findHooks(*step);
    if (failed(hooks))
      return signalPassFailure();
    module->setAttr(FsdpDialect::getProvenanceAttrName(),
                    StringAttr::get(&getContext(), computeProvenance(*step)));
    Inserter inserter(*step, *hooks);
    if (failed(inserter.run()))
      return signalPassFailure();
    remark::analysis(module.getLoc(),
                     remark::RemarkOpts::name("collectives").category(getArgument()))
        << remark::metric("AllGathers", inserter.counts.allGathers)
        << remark::metric("Reshards", inserter.counts.reshards)
        << remark::metric("ReduceScatters", inserter.counts.reduceScatters)
        << remark::metric("AllReduces", inserter.counts.allReduces)
        << remark::metric("ViewsRecomputed", inserter.counts.viewsRecomputed);
  }
};
} // namespace
