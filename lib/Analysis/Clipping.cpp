//===- Clipping.cpp - The norm of all gradients ---------------------------===//

#include "fsdp/Analysis/Clipping.h"

using namespace mlir;
using namespace fsdp;

namespace {

class Checker {
public:
  explicit Checker(Step &step) : step(step), isSharded(step.getRanks() > 1) {}
  LogicalResult run();

private:
  LogicalResult checkSum(SquareSumOp sum);
  LogicalResult checkFactor(ClipFactorOp factor);
  LogicalResult checkUpdate(UpdateOp update);
  /// Diagnoses `op`, with a note at `other` unless that is null.
  LogicalResult fail(Operation *op, const Twine &message, Operation *other, StringRef note) {
    InFlightDiagnostic diag = op->emitError("S8: ") << message;
    if (other)
      diag.attachNote(other->getLoc()) << note;
    return diag;
  }

  Step &step;
  const bool isSharded;
  SquareSumOp squareSum;
};

} // namespace

/// The sum reads what the updates read, each once.
LogicalResult Checker::checkSum(SquareSumOp sum) {
  if (squareSum)
    return fail(sum, "the gradients' squares are summed twice", squareSum, "the first sum is here");
  squareSum = sum;
  DenseSet<Value> summed;
  for (Value gradient : sum.getGradients())
    if (!summed.insert(gradient).second)
      return fail(sum, "the squares of one gradient are summed twice", gradient.getDefiningOp(),
                  "the gradient is made here");
  for (auto update : step.getBody().getOps<UpdateOp>())
    if (update.getGradient() && !summed.erase(update.getGradient()))
      return fail(sum, "the sum of squares lacks the gradient of group @" + update.getTarget(),
                  update, "updated here");
  if (!summed.empty())
    return fail(sum, "the sum of squares has a gradient with which no group is updated",
                (*summed.begin()).getDefiningOp(), "made here");
  return success();
}

LogicalResult Checker::checkFactor(ClipFactorOp factor) {
  Operation *total = factor.getTotal().getDefiningOp();
  Operation *sum = total;
  if (isSharded) {
    auto wait = dyn_cast_or_null<AllReduceWaitOp>(total);
    if (!wait)
      return fail(factor,
                  "takes the squares of this rank's gradients alone, expected the sum over " +
                      Twine(step.getRanks()) + " ranks, from a " +
                      AllReduceWaitOp::getOperationName(),
                  total, "made here");
    AllReduceStartOp start = wait.getStart();
    Attribute shardAxis = step.mesh.getAxes()[step.mesh.getAxes().size() - 1];
    if (start.getReduceOp() != ReduceOp::Sum || start.getAxes().size() != 1 ||
        start.getAxes()[0] != shardAxis)
      return fail(start,
                  "the gradients' squares are to be added up over axis \"" +
                      cast<StringAttr>(shardAxis).getValue() + "\"",
                  nullptr, "");
    sum = start.getSource().getDefiningOp();
  }
  if (isa_and_nonnull<SquareSumOp>(sum))
    return success();
  return fail(factor, "takes what is not the result of a " + SquareSumOp::getOperationName(), sum,
              "made here");
}

LogicalResult Checker::checkUpdate(UpdateOp update) {
  bool clips = step.optimizer && step.optimizer.getClipGradNorm();
  if (clips == bool(update.getClip())) {
    if (!clips || update.getClip().getDefiningOp<ClipFactorOp>())
      return success();
    return fail(update,
                "the update of @" + update.getTarget() +
                    " takes its clip factor from elsewhere than a " +
                    ClipFactorOp::getOperationName(),
                nullptr, "");
  }
  return fail(update,
              "the update of @" + update.getTarget() +
                  (clips ? " takes no clip factor, but the optimizer clips"
                         : " takes a clip factor, but the optimizer has no 'clip_grad_norm'"),
              step.optimizer, "the optimizer is declared here");
}

LogicalResult Checker::run() {
  for (Operation &op : step.getBody()) {
    LogicalResult result = success();
    if (auto sum = dyn_cast<SquareSumOp>(op))
      result = checkSum(sum);
    else if (auto factor = dyn_cast<ClipFactorOp>(op))
      result = checkFactor(factor);
    else if (auto update = dyn_cast<UpdateOp>(op))
      result = checkUpdate(update);
    if (failed(result))
      return failure();
  }
  return success();
}

LogicalResult fsdp::checkClipping(Step &step) { return Checker(step).run(); }
