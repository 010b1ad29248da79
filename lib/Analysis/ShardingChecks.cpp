//===- ShardingChecks.cpp - What must hold of groups and collectives ------===//

#include "fsdp/Analysis/ShardingChecks.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fsdp;
using aten::CallOp;

namespace {

/// One gather and how far it has come.
struct Gather {
  AllGatherStartOp start;
  AllGatherWaitOp wait;
  ReleaseOp release;
};

struct GroupState {
  AllGatherStartOp gather; // null while the group is not gathered
  ReduceScatterStartOp reduction;
  ReduceScatterWaitOp reductionWait;
  AllReduceStartOp across; // of replicated groups
  AllReduceWaitOp acrossWait;
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
  LogicalResult visit(AllGatherStartOp start);
  LogicalResult visit(AllGatherWaitOp wait);
  LogicalResult visit(ReleaseOp release);
  LogicalResult visit(ReduceScatterStartOp start);
  LogicalResult visit(ReduceScatterWaitOp wait);
  LogicalResult visit(AllReduceStartOp start);
  LogicalResult visit(AllReduceWaitOp wait);
  LogicalResult checkReduced(UpdateOp update, const GroupState &state);
  LogicalResult visit(UpdateOp update);
  LogicalResult checkDtype(Operation *op, Value value, FlatSymbolRefAttr name);
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
  DenseMap<Value, Gather> gathers; // by handle
  DenseMap<Value, FullParam> fullParams;
  DenseMap<StringAttr, GradOp> gradients;
};

} // namespace

InFlightDiagnostic Checker::fail(Operation *op, const Twine &message, Operation *other,
                                 StringRef note) {
  InFlightDiagnostic diag = op->emitError(message);
  if (other)
    diag.attachNote(other->getLoc()) << note;
  return diag;
}

//===----------------------------------------------------------------------===//
// Gathers
//===----------------------------------------------------------------------===//

LogicalResult Checker::visit(AllGatherStartOp start) {
  GroupState &state = getState(start.getGroupAttr());
  std::string name = ("group @" + start.getGroup()).str();
  if (!isSharded)
    return fail(start, name + " is gathered on a mesh of one rank", step.mesh,
                "the mesh is declared here");
  if (state.gather)
    return fail(start, name + " is gathered while it is gathered", state.gather, "gathered here");
  if (state.update)
    return fail(start, name + " is gathered after its update", state.update, "updated here");
  state.gather = start;
  gathers[start.getHandle()].start = start;
  return success();
}

LogicalResult Checker::visit(AllGatherWaitOp wait) {
  Gather &gather = gathers[wait.getHandle()];
  if (gather.wait)
    return fail(wait, "a gather is waited for twice", gather.wait, "waited for here");
  if (gather.release)
    return fail(wait, "group @" + gather.start.getGroup() + " is waited for after its release",
                gather.release, "released here");
  gather.wait = wait;
  for (OpResult result : wait.getResults())
    fullParams[result] = {gather.start, result.getResultNumber()};
  return success();
}

LogicalResult Checker::visit(ReleaseOp release) {
  Gather &gather = gathers[release.getHandle()];
  std::string name = ("group @" + gather.start.getGroup()).str();
  if (gather.release)
    return fail(release, name + " is released twice", gather.release, "released here");
  if (!gather.wait)
    return fail(release, name + " is released before its gather is waited for", gather.start,
                "gathered here");
  gather.release = release;
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
    if (ReleaseOp release = gather.release) {
      GroupOp group = step.groups[step.groupByName.lookup(param.gather.getGroupAttr().getAttr())];
      InFlightDiagnostic diag = op.emitError("parameter ")
                                << group.getParams()[param.position] << " of group @"
                                << group.getSymName() << " is used after its release";
      if (call)
        diag << ", in module '" << call.getModule() << "'";
      diag.attachNote(release.getLoc()) << "released here";
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
  GroupState &state = getState(start.getGroupAttr());
  std::string name = ("group @" + start.getGroup()).str();
  if (!isSharded)
    return fail(start, name + " is reduced on a mesh of one rank", step.mesh,
                "the mesh is declared here");
  if (state.reduction)
    return fail(start, "the gradients of " + name + " are reduced twice", state.reduction,
                "reduced here");
  state.reduction = start;
  return success();
}

LogicalResult Checker::visit(ReduceScatterWaitOp wait) {
  auto start = wait.getHandle().getDefiningOp<ReduceScatterStartOp>();
  GroupState &state = getState(start.getGroupAttr());
  if (state.reductionWait)
    return fail(wait, "the reduction of group @" + start.getGroup() + " is waited for twice",
                state.reductionWait, "waited for here");
  state.reductionWait = wait;
  return success();
}

LogicalResult Checker::visit(AllReduceStartOp start) {
  GroupState &state = getState(start.getGroupAttr());
  std::string name = ("group @" + start.getGroup()).str();
  if (!isReplicated)
    return fail(start, name + " is reduced over replicas on a mesh without", step.mesh,
                "the mesh is declared here");
  if (state.across)
    return fail(start, "the gradients of " + name + " are reduced over the replicas twice",
                state.across, "reduced here");
  state.across = start;
  return success();
}

LogicalResult Checker::visit(AllReduceWaitOp wait) {
  auto start = wait.getHandle().getDefiningOp<AllReduceStartOp>();
  GroupState &state = getState(start.getGroupAttr());
  if (state.acrossWait)
    return fail(wait,
                "the reduction of group @" + start.getGroup() +
                    " over the replicas is waited for twice",
                state.acrossWait, "waited for here");
  state.acrossWait = wait;
  return success();
}

/// The shard that an update reads is averaged over all ranks.
LogicalResult Checker::checkReduced(UpdateOp update, const GroupState &state) {
  GroupOp group = step.groups[step.groupByName.lookup(update.getTargetAttr().getAttr())];
  auto check = [&](Operation *start, Operation *wait, StringRef what) -> LogicalResult {
    if (wait)
      return success();
    return fail(update, "group @" + update.getTarget() + " is updated before the wait for " + what,
                start ? start : group.getOperation(), start ? "reduced here" : "declared here");
  };
  if (isSharded && failed(check(state.reduction, state.reductionWait, "its reduction")))
    return failure();
  return isReplicated ? check(state.across, state.acrossWait, "its reduction over the replicas")
                      : success();
}

LogicalResult Checker::visit(UpdateOp update) {
  auto it = step.groupByName.find(update.getTargetAttr().getAttr());
  if (it == step.groupByName.end())
    return fail(update,
                "parameter @" + update.getTarget() + " is updated; a sharded step updates groups",
                nullptr, "");
  GroupState &state = groups[it->second];
  std::string name = ("group @" + update.getTarget()).str();
  if (state.update)
    return fail(update, name + " is updated twice", state.update, "updated here");
  if (failed(checkReduced(update, state)))
    return failure();
  if (state.gather)
    return fail(update, name + " is updated while it is gathered", state.gather, "gathered here");
  if (!isSharded)
    for (ParamOp param : step.getParams(step.groups[it->second]))
      if (!gradients.contains(param.getSymNameAttr()))
        return fail(update,
                    name + " is updated before parameter @" + param.getSymName() +
                        " has its gradient",
                    param, "the parameter is declared here");
  state.update = update;
  return success();
}

/// S7: where nothing travels, nothing is in another dtype than the parameters.
LogicalResult Checker::checkDtype(Operation *op, Value value, FlatSymbolRefAttr name) {
  ParamOp param = step.paramByName.lookup(name.getAttr());
  Type expected = cast<RankedTensorType>(param.getType()).getElementType();
  Type got = cast<RankedTensorType>(value.getType()).getElementType();
  if (got == expected)
    return success();
  InFlightDiagnostic diag = op->emitError("parameter ")
                            << name << " is " << got << " here, expected " << expected
                            << ": on one rank nothing is gathered or reduced";
  diag.attachNote(param.getLoc()) << "the parameter is declared here";
  return diag;
}

LogicalResult Checker::visit(ReadOp read) {
  if (!step.paramByName.contains(read.getSourceAttr().getAttr()))
    return success();
  if (!isSharded)
    return checkDtype(read, read.getResult(), read.getSourceAttr());
  return fail(read,
              "parameter @" + read.getSource() + " is read; it is sharded over " +
                  Twine(step.getRanks()) + " ranks and must be gathered",
              step.mesh, "the mesh is declared here");
}

LogicalResult Checker::visit(GradOp grad) {
  if (isSharded)
    return fail(grad,
                "the gradient of parameter @" + grad.getParam() + " is not reduced over " +
                    Twine(step.getRanks()) + " ranks",
                step.mesh, "the mesh is declared here");
  if (failed(checkDtype(grad, grad.getValue(), grad.getParamAttr())))
    return failure();
  GradOp &known = gradients[grad.getParamAttr().getAttr()];
  if (known)
    return fail(grad, "parameter @" + grad.getParam() + " has two gradients", known,
                "the first one is here");
  known = grad;
  return success();
}

/// A group that is still gathered has not been updated: updates expect the release.
LogicalResult Checker::checkEnd() {
  for (auto [group, state] : llvm::zip_equal(step.groups, groups)) {
    if (group.getParams().empty())
      continue;
    std::string name = ("group @" + group.getSymName()).str();
    if (isSharded && !state.reduction)
      return fail(group, "the gradients of " + name + " are never reduced", nullptr, "");
    if (isSharded && !state.reductionWait)
      return fail(state.reduction, "the reduction of " + name + " is never waited for", nullptr,
                  "");
    if (isReplicated && !state.across)
      return fail(group,
                  "the gradients of " + name + " are never reduced over the " +
                      Twine(step.getReplicas()) + " replicas",
                  nullptr, "");
    if (isReplicated && !state.acrossWait)
      return fail(state.across,
                  "the reduction of " + name + " over the replicas is never waited for", nullptr,
                  "");
    if (!state.update)
      return fail(group, name + " is never updated", nullptr, "");
  }
  return success();
}

LogicalResult Checker::run() {
  for (Operation &op : step.getBody()) {
    if (failed(checkUses(op)))
      return failure();
    LogicalResult result =
        llvm::TypeSwitch<Operation *, LogicalResult>(&op)
            .Case<AllGatherStartOp, AllGatherWaitOp, ReleaseOp, ReduceScatterStartOp,
                  ReduceScatterWaitOp, AllReduceStartOp, AllReduceWaitOp, UpdateOp, ReadOp, GradOp>(
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

LogicalResult fsdp::checkGroups(Step &step) {
  if (!step.mesh)
    return step.module.emitError("the module has no mesh; run fsdp-group-parameters first");
  // Two meshes, or a parameter in two groups: Step::collect has seen that.
  for (ParamOp param : step.params)
    if (!step.memberByParam.contains(param.getSymNameAttr()))
      return param.emitError("parameter @") << param.getSymName() << " is in no group";
  return success();
}

LogicalResult fsdp::checkCollectives(Step &step) { return Checker(step).run(); }
