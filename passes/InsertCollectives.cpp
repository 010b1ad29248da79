//===- InsertCollectives.cpp - Gather, reshard and reduce each group ------===//
//
// Walks the step once, and runs the hooks of all groups on the way. The walk is linear, since it
// never asks for the order of two operations: every insertion would invalidate the cache of that
// order.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/GroupHooks.h"
#include "fsdp/Analysis/Provenance.h"
#include "fsdp/Analysis/Requests.h"
#include "fsdp/Transforms/AlignReads.h"
#include "fsdp/Transforms/ReduceGradients.h"
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

/// The state of a group during the walk.
struct GroupState {
  Value shard; // to be gathered; null: the group is not gathered, and parameters are read
  Value chunk; // to be gathered next instead of the shard; null: the shard is gathered
  int64_t microbatch = 0;  // of the last forward
  AllGatherStartOp gather; // null while resharded
  AllGatherWaitOp wait;
  bool reshardAfterForward = false;
  SmallVector<Value> gradients; // of the microbatch, by position in the group
  /// For a parameter or a captured view of one, its value since the last gather.
  DenseMap<Value, Value> current;
};

class Inserter {
public:
  Inserter(Step &step, ArrayRef<Hook> hooks, Transport transport)
      : step(step), hooks(hooks), transport(transport), states(step.groups.size()),
        builder(step.module.getContext()), handleType(HandleType::get(step.module.getContext())) {}
  LogicalResult run();

  struct Counts {
    unsigned allGathers = 0, reshards = 0, viewsRecomputed = 0;
  } counts;
  std::optional<GradientReductions> reductions; // from prepare() on

private:
  LogicalResult prepare();
  Value declareShard(GroupOp group);
  LogicalResult castToFloat8();
  LogicalResult runHook(const Hook &hook, Operation *before);
  void gather(unsigned group, Phase phase);
  void reshard(unsigned group, Phase phase);
  LogicalResult reduce(unsigned group, int64_t microbatch);
  LogicalResult visit(Operation *op);
  LogicalResult remapOperands(Operation *op);
  Value getCurrent(Value value, GroupMember member, Phase phase);
  void erase(Operation *op);

  Step &step;
  ArrayRef<Hook> hooks;
  const Transport transport; // for gathers from shards
  SmallVector<GroupState> states;
  OpBuilder builder;
  Type handleType;
  int64_t lastMicrobatch = 0;
  const bool isInterleaved = step.isInterleaved();
  /// For a captured value that is a parameter or a view of one, the parameter.
  DenseMap<Value, GroupMember> origin;
  DenseMap<Operation *, Value> viewBase; // for a captured view, the viewed value
  SmallVector<Operation *> replaced;     // reads, gradients and updates, erased at the end
};

} // namespace

//===----------------------------------------------------------------------===//
// Collect
//===----------------------------------------------------------------------===//

LogicalResult Inserter::prepare() {
  for (auto [index, group] : llvm::enumerate(step.groups)) {
    if (std::optional<std::string> problem = checkGradientDivision(step, group))
      return group.emitError("group @") << group.getSymName() << ": " << *problem;
    Reshard choice = group.getReshardAfterForward();
    states[index].reshardAfterForward = choice == Reshard::Always || choice == Reshard::Auto ||
                                        (choice == Reshard::None && !group.isRoot());
    states[index].gradients.resize(step.getTrained(group).size());
  }
  for (ParamOp param : step.params)
    if (!step.memberByParam.contains(param.getSymNameAttr()))
      return param.emitError("parameter @") << param.getSymName() << " is in no group";

  // A gradient exists from its definition on, wherever fsdp.grad is placed.
  Block &body = step.getBody();
  SmallVector<GradOp> grads(body.getOps<GradOp>());
  for (GradOp grad : llvm::reverse(grads))
    if (Operation *maker = grad.getValue().getDefiningOp())
      grad->moveAfter(maker);
  // Updates move up to their groups' reductions, so their inputs must be above those.
  for (auto call : body.getOps<CallOp>())
    lastMicrobatch = std::max(lastMicrobatch, call.getMicrobatch());
  SmallVector<Operation *> inputs;
  for (Operation &op : body)
    if (isa<InputOp, LossScaleOp>(op))
      inputs.push_back(&op);
  for (Operation *input : llvm::reverse(inputs))
    input->moveBefore(&body, body.begin());
  builder.setInsertionPointToStart(&body);
  if (!inputs.empty())
    builder.setInsertionPointAfter(inputs.back());
  // A group that is not sharded has its whole parameters in device memory.
  for (auto [group, state] : llvm::zip_equal(step.groups, states))
    if (!group.getParams().empty() && (step.getShards(group) > 1 || group.areParametersOnHost()))
      state.shard = declareShard(group);
  if (failed(castToFloat8()))
    return failure();
  Value number, rate; // of the update
  for (UpdateOp update : body.getOps<UpdateOp>()) {
    number = update.getStep();
    rate = update.getLr();
  }
  if (!number && !step.params.empty() && !step.isEvaluation())
    return step.function.emitError("no parameter is updated");
  reductions.emplace(step, builder, number, rate, lastMicrobatch);
  return success();
}

/// Casts the shards of all groups that are gathered as float8, once for all gathers, by the largest
/// absolute values of whole parameters: one all-reduce yields them for the step.
LogicalResult Inserter::castToFloat8() {
  SmallVector<unsigned> cast;
  SmallVector<Value> shards;
  int64_t numParams = 0;
  for (auto [index, group] : llvm::enumerate(step.groups)) {
    if (!group.isGatheredAsFloat8() || !states[index].shard)
      continue;
    if (GroupOp first = cast.empty() ? group : step.groups[cast.front()];
        first.getMeshAttr() != group.getMeshAttr())
      return group.emitError("group @")
             << group.getSymName() << " of mesh " << group.getMeshAttr()
             << " is gathered as float8, and @" << first.getSymName() << " of mesh "
             << first.getMeshAttr() << " too; expected groups of one mesh";
    cast.push_back(index);
    shards.push_back(states[index].shard);
    numParams += group.getParams().size();
  }
  if (cast.empty())
    return success();
  GroupOp first = step.groups[cast.front()];
  Location loc = first.getLoc();
  auto type = RankedTensorType::get({numParams}, builder.getF32Type());
  Value part = PartialAmaxOp::create(builder, loc, type, shards, /*offset=*/nullptr);
  auto start = AllReduceStartOp::create(builder, loc, handleType, part,
                                        builder.getArrayAttr(first.getAxisAttr()), ReduceOp::Max,
                                        /*predivide=*/nullptr, /*postdivide=*/nullptr,
                                        Phase::Forward, Stream::Compute, /*coalesced=*/nullptr);
  Value total = AllReduceWaitOp::create(builder, loc, type, start.getHandle());
  for (unsigned index : cast) {
    GroupOp group = step.groups[index];
    Value &shard = states[index].shard;
    auto encoded =
        ShardType::get(builder.getContext(), FlatSymbolRefAttr::get(group.getSymNameAttr()),
                       *group.getGatherDtype());
    shard = EncodeOp::create(builder, group.getLoc(), encoded, shard, total, /*offset=*/nullptr);
  }
  for (auto amax : step.getBody().getOps<AmaxOp>())
    amax.getTotalMutable().assign(total);
  return success();
}

/// Declares the shard as it is gathered: in the dtype of the gathers, or encoded once for all
/// gathers.
Value Inserter::declareShard(GroupOp group) {
  auto name = FlatSymbolRefAttr::get(group.getSymNameAttr());
  if (group.isGatheredAsFloat8()) // castToFloat8() follows
    return ShardOp::create(builder, group.getLoc(),
                           ShardType::get(builder.getContext(), name, step.getDtype(group)), name);
  if (group.getAllGatherExtension()) {
    Value shard =
        ShardOp::create(builder, group.getLoc(),
                        ShardType::get(builder.getContext(), name, step.getDtype(group)), name);
    Type bytes = builder.getIntegerType(8, /*isSigned=*/false);
    return EncodeOp::create(builder, group.getLoc(),
                            ShardType::get(builder.getContext(), name, bytes), shard,
                            /*amax=*/nullptr, /*offset=*/nullptr);
  }
  Type dtype = group.getGatherDtype() ? Type(*group.getGatherDtype()) : step.getDtype(group);
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
  Value source = state.chunk ? state.chunk : state.shard;
  state.chunk = {};
  state.gather = AllGatherStartOp::create(
      builder, loc, handleType, source, builder.getArrayAttr(group.getAxisAttr()), phase,
      Stream::Compute, source == state.shard ? transport : Transport::Kernels,
      /*coalesced=*/nullptr, /*offset=*/nullptr);
  state.wait =
      AllGatherWaitOp::create(builder, loc, types, state.gather.getHandle(), /*offsets=*/nullptr);
  state.current.clear();
  ++counts.allGathers;
}

void Inserter::reshard(unsigned index, Phase phase) {
  GroupState &state = states[index];
  GroupOp group = step.groups[index];
  if (std::optional<int64_t> ranks = group.getReshardRanks(); ranks && phase == Phase::Forward) {
    auto shard = cast<ShardType>(state.shard.getType());
    auto type =
        ShardType::get(builder.getContext(), shard.getGroup(), shard.getElementType(), *ranks);
    state.chunk = ChunkOp::create(builder, group.getLoc(), type, state.wait.getResults(),
                                  /*offset=*/nullptr);
  }
  ReshardOp::create(builder, group.getLoc(), state.gather.getHandle(), phase);
  state.gather = {};
  ++counts.reshards;
}

/// Reduces the gradients of the microbatch.
LogicalResult Inserter::reduce(unsigned index, int64_t microbatch) {
  GroupState &state = states[index];
  for (auto [param, gradient] :
       llvm::zip_equal(step.getTrained(step.groups[index]), state.gradients))
    if (!gradient)
      return param.emitError("parameter @")
             << param.getSymName() << " has no gradient, but is not frozen";
  reductions->add(index, state.gradients, microbatch);
  state.gradients.assign(state.gradients.size(), Value());
  return success();
}

LogicalResult Inserter::runHook(const Hook &hook, Operation *before) {
  builder.setInsertionPoint(before);
  GroupState &state = states[hook.group];
  if (step.groups[hook.group].getParams().empty())
    return success();
  switch (hook.kind) {
  case HookKind::PreForward:
    // A chunk is kept for the backward of its own microbatch. Where microbatches are interleaved,
    // FSDP2 gathers the next forward from it, too.
    if (state.microbatch != hook.microbatch && !isInterleaved)
      state.chunk = {};
    state.microbatch = hook.microbatch;
    [[fallthrough]];
  case HookKind::PreBackward:
    if (state.shard && !state.gather)
      gather(hook.group, hook.kind == HookKind::PreForward ? Phase::Forward : Phase::Backward);
    return success();
  case HookKind::PostForward:
    if (state.gather && state.reshardAfterForward)
      reshard(hook.group, Phase::Forward);
    return success();
  case HookKind::PostBackward:
    if (step.groups[hook.group].getReshardAfterBackward().value_or(true) ||
        hook.microbatch == lastMicrobatch) {
      if (state.gather)
        reshard(hook.group, step.isEvaluation() ? Phase::Forward : Phase::Backward);
      if (isInterleaved)
        state.chunk = {};
    }
    if (step.isEvaluation())
      return success();
    if (hook.isLast)
      return reduce(hook.group, hook.microbatch);
    // The gradients of this microbatch are complete after the backward of the modules' last call.
    // When the first call's backward ends, FSDP2 reduces the gradients that exist then: those of
    // earlier microbatches. A part of the root has FSDP2's root group, which is called once.
    if (hook.microbatch == lastMicrobatch && !step.groups[hook.group].isPartOfRoot())
      reductions->reduceEarlier(hook.group);
    return success();
  }
  llvm_unreachable("all kinds of hooks are handled");
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

/// The value, since the last gather of its group, of `value`: a parameter, or a captured view of
/// one. Views from before that gather are made again at the builder's position.
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

/// Erases the operation, and with a gradient also its cast, if the gradient is added to others
/// before the cast.
void Inserter::erase(Operation *op) {
  auto grad = dyn_cast<GradOp>(op);
  Operation *cast = grad ? grad.getValue().getDefiningOp() : nullptr;
  op->erase();
  if (isa_and_nonnull<CallOp>(cast) && cast->use_empty())
    cast->erase();
}

LogicalResult Inserter::visit(Operation *op) {
  if (auto grad = dyn_cast<GradOp>(op)) {
    if (failed(remapOperands(op)))
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
  if (auto read = dyn_cast<ReadOp>(op)) {
    auto it = step.memberByParam.find(read.getSourceAttr().getAttr());
    if (it != step.memberByParam.end() && states[it->second.group].shard) {
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
  // The operations are listed first, since the walk inserts among them.
  for (Operation *op : llvm::map_to_vector(step.getBody(), [](Operation &op) { return &op; })) {
    if (op == terminator)
      break;
    for (; isa<CallOp>(op) && hook != hooks.end() && hook->before == op; ++hook)
      if (failed(runHook(*hook, op)))
        return failure();
    if (failed(visit(op)))
      return failure();
  }
  // The step's results are computed before the groups at the end of the step are resharded.
  if (failed(remapOperands(terminator)))
    return failure();
  for (; hook != hooks.end(); ++hook)
    if (failed(runHook(*hook, terminator)))
      return failure();
  builder.setInsertionPoint(terminator);
  reductions->finish();
  for (Operation *op : llvm::reverse(replaced))
    erase(op);
  // Some groups have no backward, since everything before them is frozen.
  for (ChunkOp chunk : llvm::make_early_inc_range(step.getBody().getOps<ChunkOp>()))
    if (chunk->use_empty())
      chunk->erase();
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
    for (GroupOp group : step->groups)
      if (std::optional<std::string> open = explainOpenDtypes(*step, group)) {
        group.emitError("group @") << group.getSymName() << ' ' << *open;
        return signalPassFailure();
      }
    FailureOr<SmallVector<Hook>> hooks = findHooks(*step);
    if (failed(hooks))
      return signalPassFailure();
    alignReads(*step);
    module->setAttr(FsdpDialect::getProvenanceAttrName(),
                    StringAttr::get(&getContext(), computeProvenance(*step)));
    auto transport =
        dyn_cast_or_null<TransportAttr>(module->removeAttr(FsdpDialect::getTransportAttrName()));
    Inserter inserter(*step, *hooks, transport ? transport.getValue() : Transport::Kernels);
    if (failed(inserter.run()))
      return signalPassFailure();
    remark::analysis(module.getLoc(),
                     remark::RemarkOpts::name("collectives").category(getArgument()))
        << remark::metric("AllGathers", inserter.counts.allGathers)
        << remark::metric("Reshards", inserter.counts.reshards)
        << remark::metric("ReduceScatters", inserter.reductions->numReduceScatters)
        << remark::metric("AllReduces", inserter.reductions->numAllReduces)
        << remark::metric("ViewsRecomputed", inserter.counts.viewsRecomputed);
  }
};
} // namespace
