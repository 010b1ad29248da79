//===- Clipping.cpp - The norm of all gradients ---------------------------===//

#include "fsdp/Analysis/Clipping.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fsdp;

namespace {

class Checker {
public:
  explicit Checker(Step &step)
      : step(step), isSharded(step.getRanks() > 1), isReplicated(step.getReplicas() > 1) {}
  LogicalResult run();

private:
  LogicalResult visit(SquareSumOp sum);
  LogicalResult visit(SquareSumAllReduceWaitOp wait);
  LogicalResult visit(ClipFactorOp factor);
  LogicalResult visit(UpdateOp update);
  /// Two of a kind.
  LogicalResult failTwice(Operation *op, StringRef what, Operation *first);

  Step &step;
  const bool isSharded, isReplicated;
  DenseSet<StringAttr> reduced; // groups; on one rank, parameters with a gradient
  SquareSumOp squareSum;
  SquareSumAllReduceWaitOp wait;
};

} // namespace

LogicalResult Checker::failTwice(Operation *op, StringRef what, Operation *first) {
  InFlightDiagnostic diag = op->emitError(what);
  diag.attachNote(first->getLoc()) << "the first one is here";
  return diag;
}

LogicalResult Checker::visit(SquareSumOp sum) {
  if (squareSum)
    return failTwice(sum, "the gradients' squares are summed twice", squareSum);
  squareSum = sum;
  auto fail = [&](Operation *missing, const Twine &what) -> LogicalResult {
    InFlightDiagnostic diag = sum.emitError("the gradients' squares are summed before ") << what;
    diag.attachNote(missing->getLoc()) << "declared here";
    return diag;
  };
  for (GroupOp group : step.groups) {
    if (isSharded && !group.getParams().empty() && !reduced.contains(group.getSymNameAttr()))
      return fail(group, "the wait for the reduction of group @" + group.getSymName());
    if (!isSharded)
      for (ParamOp param : step.getParams(group))
        if (!reduced.contains(param.getSymNameAttr()))
          return fail(param, "parameter @" + param.getSymName() + " has its gradient");
  }
  return success();
}

LogicalResult Checker::visit(SquareSumAllReduceWaitOp other) {
  if (!isSharded) {
    InFlightDiagnostic diag =
        other.emitError("the gradients' squares are reduced on a mesh of one rank");
    diag.attachNote(step.mesh.getLoc()) << "the mesh is declared here";
    return diag;
  }
  if (wait)
    return failTwice(other, "the sum of the gradients' squares is waited for twice", wait);
  wait = other;
  return success();
}

LogicalResult Checker::visit(ClipFactorOp factor) {
  Operation *total = factor.getTotal().getDefiningOp();
  if (isSharded ? isa_and_nonnull<SquareSumAllReduceWaitOp>(total)
                : isa_and_nonnull<SquareSumOp>(total))
    return success();
  InFlightDiagnostic diag = factor.emitError("takes ");
  if (isSharded)
    diag << "the squares of this rank's gradients alone, expected the sum over " << step.getRanks()
         << " ranks, from a " << SquareSumAllReduceWaitOp::getOperationName();
  else
    diag << "what is not the result of a " << SquareSumOp::getOperationName();
  if (total)
    diag.attachNote(total->getLoc()) << "made here";
  return diag;
}

LogicalResult Checker::visit(UpdateOp update) {
  bool clips = step.optimizer && step.optimizer.getClipGradNorm();
  if (clips == bool(update.getClip())) {
    if (!clips || update.getClip().getDefiningOp<ClipFactorOp>())
      return success();
    return update.emitError("of @")
           << update.getTarget() << " takes its clip factor from elsewhere than a "
           << ClipFactorOp::getOperationName();
  }
  InFlightDiagnostic diag = update.emitError("of @") << update.getTarget();
  diag << (clips ? " takes no clip factor, but the optimizer clips"
                 : " takes a clip factor, but the optimizer has no 'clip_grad_norm'");
  if (step.optimizer)
    diag.attachNote(step.optimizer.getLoc()) << "the optimizer is declared here";
  return diag;
}

LogicalResult Checker::run() {
  for (Operation &op : step.getBody()) {
    LogicalResult result = llvm::TypeSwitch<Operation *, LogicalResult>(&op)
                               .Case([&](GradOp grad) {
                                 reduced.insert(grad.getParamAttr().getAttr());
                                 return success();
                               })
                               .Case([&](ReduceScatterWaitOp done) {
                                 auto start =
                                     done.getHandle().getDefiningOp<ReduceScatterStartOp>();
                                 if (!isReplicated)
                                   reduced.insert(start.getGroupAttr().getAttr());
                                 return success();
                               })
                               .Case([&](AllReduceWaitOp done) {
                                 auto start = done.getHandle().getDefiningOp<AllReduceStartOp>();
                                 reduced.insert(start.getGroupAttr().getAttr());
                                 return success();
                               })
                               .Case<SquareSumOp, SquareSumAllReduceWaitOp, ClipFactorOp, UpdateOp>(
                                   [&](auto typed) { return visit(typed); })
                               .Default(success());
    if (failed(result))
      return failure();
  }
  return success();
}

LogicalResult fsdp::checkClipping(Step &step) { return Checker(step).run(); }
