//===- ShardingChecks.cpp - What must hold of groups and collectives ------===//

#include "fsdp/Analysis/ShardingChecks.h"

#include "fsdp/Analysis/Clipping.h"
#include "fsdp/Analysis/Provenance.h"
#include "fsdp/Analysis/StateCopies.h"
#include "fsdp/Analysis/StepStorage.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fsdp;
using aten::CallOp;

namespace {

/// One gather and how far it has come.
struct Gather {
  AllGatherStartOp start;
  ReshardOp reshard;
};

/// What the step has done with a group so far.
struct GroupState {
  AllGatherStartOp gather;             // null while the group is not gathered
  SmallVector<Operation *> reductions; // reduce-scatters, or on one rank fsdp.packs, in order
  bool isReducedAcross = false;        // over the replicas
  UpdateOp update;
};

/// A value that is or is a view of a gathered parameter.
struct FullParam {
  AllGatherStartOp gather;
  unsigned position;
};

class Checker {
public:
  explicit Checker(Step &step)
      : step(step), isSharded(step.getRanks() > 1), isReplicated(step.getReplicas() > 1),
        groups(step.groups.size()) {}
  LogicalResult run();

private:
  LogicalResult checkUses(Operation &op);
  LogicalResult checkWait(Operation &op);
  LogicalResult visit(AllGatherStartOp start);
  LogicalResult visit(AllGatherWaitOp wait);
  LogicalResult visit(ReshardOp reshard);
  LogicalResult visit(ReduceScatterStartOp start);
  LogicalResult visit(PackOp pack);
  LogicalResult visit(AllReduceStartOp start);
  LogicalResult visit(AccumulateOp sum);
  LogicalResult noteReduction(Operation *op, FlatSymbolRefAttr group, StringRef what);
  LogicalResult checkReduced(UpdateOp update);
  LogicalResult visit(UpdateOp update);
  LogicalResult checkDtype(Operation *op, Value value, ParamOp param);
  LogicalResult visit(ReadOp read);
  LogicalResult visit(GradOp grad);
  LogicalResult checkEnd();
  InFlightDiagnostic fail(Operation *op, const Twine &message, Operation *other, StringRef note);
  GroupState &getState(FlatSymbolRefAttr group) {
    return groups[step.groupByName.lookup(group.getAttr())];
  }

  Step &step;
  bool isSharded, isReplicated;
  SmallVector<GroupState> groups;
  DenseMap<Value, Gather> gathers;            // by handle
  DenseMap<Value, Operation *> waits;         // by handle
  DenseMap<Value, Operation *> reducedAcross; // by handle or shard
  int64_t microbatches = 1;
  SmallVector<Operation *> starts;
  DenseMap<Value, FullParam> fullParams;
};

} // namespace

InFlightDiagnostic Checker::fail(Operation *op, const Twine &message, Operation *other,
                                 StringRef note) {
  InFlightDiagnostic diag = op->emitError(message);
  if (other)
    diag.attachNote(other->getLoc()) << note;
  return diag;
}

/// What a handle stands for, for people.
static std::string describeStart(Operation *start) {
  auto collective = dyn_cast<CollectiveOpInterface>(start);
  if (!collective)
    return "the copy of optimizer state";
  FlatSymbolRefAttr group = collective.getCollectiveGroup();
  if (!group)
    return "the reduction of a tensor";
  std::string name = " of group @" + group.getValue().str();
  if (collective.getCollectiveKind() == "all_gather")
    return "the gather" + name;
  return "the reduction" + name +
         (collective.getCollectiveKind() == "all_reduce" ? " over the replicas" : "");
}

/// Every start has one wait.
LogicalResult Checker::checkWait(Operation &op) {
  if (getStartedHandle(op))
    starts.push_back(&op);
  Value handle = getAwaitedHandle(op);
  if (!handle)
    return success();
  auto [known, isNew] = waits.try_emplace(handle, &op);
  if (isNew)
    return success();
  return fail(&op, "S2: " + describeStart(handle.getDefiningOp()) + " is waited for twice",
              known->second, "waited for here");
}

//===----------------------------------------------------------------------===//
// Gathers
//===----------------------------------------------------------------------===//

LogicalResult Checker::visit(AllGatherStartOp start) {
  GroupState &state = getState(start.getGroupAttr());
  std::string name = ("group @" + start.getGroup()).str();
  if (!isSharded)
    return fail(start, "S5: " + name + " is gathered on a mesh of one rank", step.mesh,
                "the mesh is declared here");
  if (state.gather)
    return fail(start, "S2: " + name + " is gathered while it is gathered", state.gather,
                "gathered here");
  if (state.update)
    return fail(start, "S2: " + name + " is gathered after its update", state.update,
                "updated here");
  if (!start.getShard().getDefiningOp<ShardOp>())
    return fail(start, "S2: " + name + " is gathered from what is not its shard of parameters",
                start.getShard().getDefiningOp(), "made here");
  state.gather = start;
  gathers[start.getHandle()].start = start;
  return success();
}

LogicalResult Checker::visit(AllGatherWaitOp wait) {
  Gather &gather = gathers[wait.getHandle()];
  for (OpResult result : wait.getResults())
    fullParams[result] = {gather.start, result.getResultNumber()};
  return success();
}

LogicalResult Checker::visit(ReshardOp reshard) {
  Gather &gather = gathers[reshard.getHandle()];
  std::string name = ("group @" + gather.start.getGroup()).str();
  if (gather.reshard)
    return fail(reshard, "S2: " + name + " is resharded twice", gather.reshard, "resharded here");
  if (!waits.contains(reshard.getHandle()))
    return fail(reshard, "S2: " + name + " is resharded before its gather is waited for",
                gather.start, "gathered here");
  gather.reshard = reshard;
  getState(gather.start.getGroupAttr()).gather = {};
  return success();
}

/// S3, and the origin of views.
LogicalResult Checker::checkUses(Operation &op) {
  auto call = dyn_cast<CallOp>(op);
  for (OpOperand &operand : op.getOpOperands()) {
    auto it = fullParams.find(operand.get());
    if (it == fullParams.end())
      continue;
    FullParam param = it->second;
    const Gather &gather = gathers[param.gather.getHandle()];
    if (ReshardOp reshard = gather.reshard) {
      GroupOp group = step.groups[step.groupByName.lookup(param.gather.getGroupAttr().getAttr())];
      InFlightDiagnostic diag = op.emitError("S3: parameter ")
                                << group.getParams()[param.position] << " of group @"
                                << group.getSymName() << " is used after its reshard";
      if (call)
        diag << ", in module '" << call.getModule() << "'";
      diag.attachNote(reshard.getLoc()) << "resharded here";
      diag.attachNote(param.gather.getLoc()) << "gathered here";
      return diag;
    }
    if (call && operand.getOperandNumber() == 0 && call.isView())
      for (Value result : call.getResults())
        fullParams[result] = param;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Reductions and updates
//===----------------------------------------------------------------------===//

LogicalResult Checker::visit(ReduceScatterStartOp start) {
  std::string name = ("group @" + start.getGroup()).str();
  if (!isSharded)
    return fail(start, "S5: " + name + " is reduced on a mesh of one rank", step.mesh,
                "the mesh is declared here");
  if (start.getReduceOp() != ReduceOp::Average)
    return fail(start,
                "S4: the gradients of " + name + " are reduced by " +
                    stringifyReduceOp(start.getReduceOp()) + ", expected avg",
                nullptr, "");
  return noteReduction(start, start.getGroupAttr(), "reduced");
}

/// There is at most one for each microbatch; which gradients it takes S9 proves.
LogicalResult Checker::noteReduction(Operation *op, FlatSymbolRefAttr group, StringRef what) {
  GroupState &state = getState(group);
  if (static_cast<int64_t>(state.reductions.size()) == microbatches)
    return fail(op,
                "S4: the gradients of group @" + group.getValue() + " are " + what +
                    (microbatches == 1
                         ? Twine(" twice")
                         : " more often than there are microbatches, " + Twine(microbatches)),
                state.reductions.back(), (what + " here").str());
  state.reductions.push_back(op);
  return success();
}

/// What is added to in place is read by nothing else.
LogicalResult Checker::visit(AccumulateOp sum) {
  Operation *source = sum.getSum().getDefiningOp();
  auto call = dyn_cast<CallOp>(source);
  bool isTensor = isa<RankedTensorType>(sum.getSum().getType());
  bool isOwn = !isTensor || isa<AccumulateOp>(source) || (call && !call.isView());
  if (isOwn && sum.getSum().hasOneUse())
    return success();
  return fail(sum, "S4: a gradient is added to a value that is used elsewhere", source,
              "the value is made here");
}

LogicalResult Checker::visit(PackOp pack) {
  if (isSharded)
    return fail(pack,
                "S5: the gradients of group @" + pack.getGroup() + " are not reduced over " +
                    Twine(step.getRanks()) + " ranks",
                step.mesh, "the mesh is declared here");
  if (failed(noteReduction(pack, pack.getGroupAttr(), "packed")))
    return failure();
  for (auto [gradient, param] : llvm::zip_equal(
           pack.getGrads(),
           step.getTrained(step.groups[step.groupByName.lookup(pack.getGroupAttr().getAttr())])))
    if (failed(checkDtype(pack, gradient, param)))
      return failure();
  return success();
}

LogicalResult Checker::visit(AllReduceStartOp start) {
  FlatSymbolRefAttr group = CollectiveOpInterface(start).getCollectiveGroup();
  if (!isSharded && !isReplicated)
    return fail(start, "S5: a tensor is reduced on a mesh of one rank", step.mesh,
                "the mesh is declared here");
  if (!group) {
    if (start.getSource().hasOneUse())
      return success();
    return fail(start, "S4: a tensor that is used elsewhere is reduced in place",
                start.getSource().getDefiningOp(), "the tensor is made here");
  }
  std::string name = ("group @" + group.getValue()).str();
  if (!isReplicated)
    return fail(start, "S5: " + name + " is reduced over replicas on a mesh without", step.mesh,
                "the mesh is declared here");
  auto [known, isNew] = reducedAcross.try_emplace(start.getSource(), start);
  if (!isNew)
    return fail(start, "S4: the gradients of " + name + " are reduced over the replicas twice",
                known->second, "reduced here");
  if (start.getReduceOp() != ReduceOp::Average)
    return fail(start,
                "S4: the gradients of " + name + " are reduced over the replicas by " +
                    stringifyReduceOp(start.getReduceOp()) + ", expected avg",
                nullptr, "");
  getState(group).isReducedAcross = true;
  return success();
}

/// A part of an update's gradient: what one reduction brought.
struct ReducedPart {
  Operation *reduction; // null: it comes from elsewhere
  bool isAcross;        // over the replicas, too
  Operation *source;    // for people
};

/// The reductions whose results `value` is the sum of, in the order in which they are added.
static void collectParts(Value value, bool isAcross, SmallVectorImpl<ReducedPart> &parts) {
  Operation *source = value.getDefiningOp();
  if (auto sum = dyn_cast<AccumulateOp>(source)) {
    collectParts(sum.getSum(), isAcross, parts);
    collectParts(sum.getGradient(), isAcross, parts);
  } else if (auto cast = dyn_cast<CastOp>(source)) {
    collectParts(cast.getSource(), isAcross, parts);
  } else if (auto wait = dyn_cast<ReduceScatterWaitOp>(source)) {
    parts.push_back({wait.getStart(), isAcross, source});
  } else if (auto wait = dyn_cast<AllReduceWaitOp>(source)) {
    Value reduced = wait.getStart().getSource();
    if (isa<ShardType>(reduced.getType()) && !isAcross)
      collectParts(reduced, /*isAcross=*/true, parts);
    else if (auto start = reduced.getDefiningOp<ReduceScatterStartOp>(); start && !isAcross)
      parts.push_back({start, true, source});
    else
      parts.push_back({nullptr, true, source});
  } else {
    parts.push_back({dyn_cast<PackOp>(source), isAcross, source});
  }
}

/// The gradient of an update is that of all microbatches, each averaged over all ranks. That it is
/// the gradient of the update's group its type says.
LogicalResult Checker::checkReduced(UpdateOp update) {
  Value gradient = update.getGradient();
  std::string name = ("group @" + update.getTarget()).str();
  if (!gradient)
    return fail(update, "S4: " + name + " is updated without a gradient", nullptr, "");
  SmallVector<ReducedPart> parts;
  collectParts(gradient, /*isAcross=*/false, parts);
  for (const ReducedPart &part : parts)
    if (!part.reduction || part.isAcross != isReplicated)
      return fail(update,
                  "S4: " + name +
                      " is updated with what is not its gradient's average over all ranks (" +
                      Twine(step.getRanks() * step.getReplicas()) + ")",
                  part.source, "made here");
  ArrayRef<Operation *> reductions = getState(update.getTargetAttr()).reductions;
  if (llvm::equal(reductions,
                  llvm::map_range(parts, [](const ReducedPart &part) { return part.reduction; })))
    return success();
  return fail(update,
              "S4: " + name + " is updated with the sum of " + Twine(parts.size()) + " of its " +
                  Twine(reductions.size()) +
                  " reductions; expected each of them once, in their order",
              gradient.getDefiningOp(), "made here");
}

LogicalResult Checker::visit(UpdateOp update) {
  auto it = step.groupByName.find(update.getTargetAttr().getAttr());
  if (it == step.groupByName.end())
    return fail(update,
                "S4: parameter @" + update.getTarget() +
                    " is updated; a sharded step updates groups",
                nullptr, "");
  GroupState &state = groups[it->second];
  std::string name = ("group @" + update.getTarget()).str();
  if (state.update)
    return fail(update, "S4: " + name + " is updated twice", state.update, "updated here");
  if (failed(checkReduced(update)))
    return failure();
  if (state.gather)
    return fail(update, "S2: " + name + " is updated while it is gathered", state.gather,
                "gathered here");
  auto expectInput = [&](Value value, StringRef input) -> LogicalResult {
    auto from = value.getDefiningOp<InputOp>();
    if (from && from.getName() == input)
      return success();
    return fail(update,
                "S4: " + name + " takes its " + input + " from elsewhere than input \"" + input +
                    "\"",
                value.getDefiningOp(), "made here");
  };
  if (failed(expectInput(update.getStep(), "step")) || failed(expectInput(update.getLr(), "lr")))
    return failure();
  state.update = update;
  return success();
}

/// S7: where nothing travels, nothing is in another dtype than the parameters.
LogicalResult Checker::checkDtype(Operation *op, Value value, ParamOp param) {
  Type expected = cast<RankedTensorType>(param.getType()).getElementType();
  Type got = cast<RankedTensorType>(value.getType()).getElementType();
  if (got == expected)
    return success();
  InFlightDiagnostic diag = op->emitError("S7: parameter @")
                            << param.getSymName() << " is " << got << " here, expected " << expected
                            << ": on one rank nothing is gathered or reduced";
  diag.attachNote(param.getLoc()) << "the parameter is declared here";
  return diag;
}

LogicalResult Checker::visit(ReadOp read) {
  ParamOp param = step.paramByName.lookup(read.getSourceAttr().getAttr());
  if (!param)
    return success();
  if (!isSharded)
    return checkDtype(read, read.getResult(), param);
  return fail(read,
              "S5: parameter @" + read.getSource() + " is read; it is sharded over " +
                  Twine(step.getRanks()) + " ranks and must be gathered",
              step.mesh, "the mesh is declared here");
}

LogicalResult Checker::visit(GradOp grad) {
  return fail(grad,
              "S5: the gradient of parameter @" + grad.getParam() +
                  " is said by itself; a sharded step reduces or packs those of its group",
              nullptr, "");
}

/// A group that is still gathered has not been updated: updates expect the reshard.
LogicalResult Checker::checkEnd() {
  for (auto [group, state] : llvm::zip_equal(step.groups, groups)) {
    if (step.getTrained(group).empty())
      continue;
    std::string name = ("group @" + group.getSymName()).str();
    if (state.reductions.empty())
      return fail(group, "S4: the gradients of " + name + " are never reduced", nullptr, "");
    if (isReplicated && !state.isReducedAcross)
      return fail(group,
                  "S4: the gradients of " + name + " are never reduced over the " +
                      Twine(step.getReplicas()) + " replicas",
                  nullptr, "");
  }
  for (Operation *start : starts)
    if (!waits.contains(getStartedHandle(*start)))
      return fail(start, "S2: " + describeStart(start) + " is never waited for", nullptr, "");
  for (auto [group, state] : llvm::zip_equal(step.groups, groups))
    if (!step.getTrained(group).empty() && !state.update)
      return fail(group, "S4: group @" + group.getSymName() + " is never updated", nullptr, "");
  return success();
}

LogicalResult Checker::run() {
  if (auto accumulation =
          step.module->getAttrOfType<AccumulationAttr>(FsdpDialect::getAccumulationAttrName()))
    microbatches = accumulation.getMicrobatches();
  for (Operation &op : step.getBody()) {
    auto call = dyn_cast<CallOp>(op);
    if (failed(checkUses(op)) || failed(checkWait(op)) ||
        (call && failed(checkFunctional(call, "S9"))))
      return failure();
    LogicalResult result =
        llvm::TypeSwitch<Operation *, LogicalResult>(&op)
            .Case<AllGatherStartOp, AllGatherWaitOp, ReshardOp, ReduceScatterStartOp, PackOp,
                  AccumulateOp, AllReduceStartOp, UpdateOp, ReadOp, GradOp>(
                [&](auto typed) { return visit(typed); })
            .Default(success());
    if (failed(result))
      return failure();
  }
  return checkEnd();
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

LogicalResult fsdp::checkGroups(Step &step, StringRef label) {
  if (!step.mesh)
    return step.module.emitError(label)
           << ": the module has no mesh; run fsdp-group-parameters first";
  // Two meshes, or a parameter in two groups: Step::collect has seen that.
  for (ParamOp param : step.params)
    if (!step.memberByParam.contains(param.getSymNameAttr()))
      return param.emitError(label) << ": parameter @" << param.getSymName() << " is in no group";
  return success();
}

LogicalResult fsdp::checkFunctional(CallOp call, StringRef label) {
  StringRef base = call.getBaseName();
  StringRef overload = call.getCallee().split('.').second;
  bool isInPlace = base.ends_with("_") && !base.ends_with("__");
  if (!isInPlace && overload != "out" && !overload.ends_with("_out"))
    return success();
  return call.emitError(label) << ": '" << call.getCallee() << "' in module '" << call.getModule()
                               << "' mutates an argument; a step is functional";
}

/// What the step takes are fsdp.input and fsdp.shard.
static LogicalResult checkNoArguments(Step &step) {
  if (step.function.getNumArguments() == 0)
    return success();
  return step.function.emitError("S1: the step has ")
         << step.function.getNumArguments() << " arguments; inputs are 'fsdp.input'";
}

LogicalResult fsdp::checkSharded(Step &step) {
  if (failed(checkNoArguments(step)) || failed(checkGroups(step, "S1")) ||
      failed(Checker(step).run()) || failed(checkClipping(step)))
    return failure();
  if (failed(checkStateCopies(step)))
    return failure();
  return checkProvenance(step);
}
