//===- Clipping.cpp - Checks of gradient clipping -------------------------===//

#include "fsdp/Analysis/Clipping.h"

#include "fsdp/Analysis/GradientDivision.h"

using namespace mlir;
using namespace fsdp;

namespace {

class Checker {
public:
  explicit Checker(Step &step) : step(step), over(step.getNormAxes()) {}
  LogicalResult run();

private:
  LogicalResult checkNorm(PartialNormOp found);
  LogicalResult checkPart(ShardNormOp part);
  LogicalResult checkFactor(ClipFactorOp factor);
  LogicalResult checkUpdate(UpdateOp update);
  LogicalResult checkScale(Operation *op, Value scale);
  /// Diagnoses `op`, with a note at `other` unless `other` is null.
  LogicalResult fail(Operation *op, const Twine &message, Operation *other, StringRef note) {
    InFlightDiagnostic diag = op->emitError("S8: ") << message;
    if (other)
      diag.attachNote(other->getLoc()) << note;
    return diag;
  }

  Step &step;
  const NormAxes over;
  PartialNormOp norm;
};

} // namespace

/// A partial norm that is computed early is an operand of the total, once.
LogicalResult Checker::checkPart(ShardNormOp part) {
  if (part.getResult().hasOneUse() && isa<PartialNormOp>(*part.getResult().getUsers().begin()))
    return success();
  return fail(part, "is not an operand of the gradients' norm, or more than once", nullptr, "");
}

/// The norm reads the gradients of all updates, each once.
LogicalResult Checker::checkNorm(PartialNormOp found) {
  if (norm)
    return fail(found, "the gradients' norm is taken twice", norm, "the first time is here");
  norm = found;
  NormType expected = step.optimizer ? step.optimizer.getClipNormType() : NormType::Two;
  if (found.getNormType() != expected)
    return fail(found,
                "has norm " + stringifyNormType(found.getNormType()) +
                    ", but the optimizer clips by norm " + stringifyNormType(expected),
                step.optimizer, "the optimizer is declared here");
  DenseSet<Value> counted;
  for (Value gradient : found.getGradients()) {
    if (auto part = gradient.getDefiningOp<ShardNormOp>()) {
      if (part.getNormType() != expected)
        return fail(part,
                    "has norm " + stringifyNormType(part.getNormType()) +
                        ", but the optimizer clips by norm " + stringifyNormType(expected),
                    step.optimizer, "the optimizer is declared here");
      gradient = part.getGradient();
    }
    if (!counted.insert(skipHostCopies(gradient)).second)
      return fail(found, "the norm counts one gradient twice", gradient.getDefiningOp(),
                  "the gradient is made here");
  }
  for (auto update : step.getBody().getOps<UpdateOp>())
    if (update.getGradient() && !counted.erase(skipHostCopies(update.getGradient())))
      return fail(found, "the norm lacks the gradient of group @" + update.getTarget(), update,
                  "updated here");
  if (!counted.empty())
    return fail(found, "the norm has a gradient with which no group is updated",
                (*counted.begin()).getDefiningOp(), "made here");
  return success();
}

LogicalResult Checker::checkFactor(ClipFactorOp factor) {
  Operation *total = factor.getTotal().getDefiningOp();
  Operation *part = total;
  if (over.ranks > 1) {
    auto wait = dyn_cast_or_null<AllReduceWaitOp>(total);
    if (!wait)
      return fail(factor,
                  "takes the norm of this rank's gradients alone, expected that of " +
                      Twine(over.ranks) + " ranks, from a " + AllReduceWaitOp::getOperationName(),
                  total, "made here");
    AllReduceStartOp start = wait.getStart();
    const Reduction reduction = getReduction(start);
    const Reduction expected{getNormReduceOp(step.optimizer.getClipNormType())};
    auto expectedAxes = ArrayAttr::get(start.getContext(), over.axes);
    if (reduction != expected || start.getAxes() != expectedAxes) {
      std::string axes, others;
      llvm::raw_string_ostream(axes) << start.getAxes();
      llvm::raw_string_ostream(others) << expectedAxes;
      return fail(start,
                  "reduces the gradients' norm by " + describe(reduction) + " over " + axes +
                      ", expected " + describe(expected) + " over " + others,
                  nullptr, "");
    }
    part = start.getSource().getDefiningOp();
  }
  if (isa_and_nonnull<PartialNormOp>(part))
    return checkScale(factor, factor.getScale());
  return fail(factor, "takes what is not the result of a " + PartialNormOp::getOperationName(),
              part, "made here");
}

/// Norm and updates divide gradients by the factor that the backward began with.
LogicalResult Checker::checkScale(Operation *op, Value scale) {
  LossScaleOp expected = step.getLossScale();
  if (scale == (expected ? expected.getResult() : Value()))
    return success();
  return fail(op,
              scale ? "divides gradients by a loss scale, but the loss is not scaled"
                    : "does not divide gradients by the loss scale",
              expected, "the loss scale is here");
}

LogicalResult Checker::checkUpdate(UpdateOp update) {
  bool clips = step.optimizer && step.optimizer.needsNorm();
  if (clips == bool(update.getClip())) {
    if (!clips || update.getClip().getDefiningOp<ClipFactorOp>())
      return checkScale(update, update.getScale());
    return fail(update,
                "the update of @" + update.getTarget() +
                    " takes its clip factor from elsewhere than a " +
                    ClipFactorOp::getOperationName(),
                nullptr, "");
  }
  return fail(
      update,
      "the update of @" + update.getTarget() +
          (!clips ? " takes a clip factor, but the optimizer has no 'clip_grad_norm'"
           : step.optimizer.getClipGradNorm()
               ? " takes no clip factor, but the optimizer clips"
               : " takes no clip factor, but the optimizer has a 'loss_scale', which leaves "
                 "out updates by it"),
      step.optimizer, "the optimizer is declared here");
}

LogicalResult Checker::run() {
  if (failed(checkLossScaleOp(step, "S8")))
    return failure();
  for (Operation &op : step.getBody()) {
    LogicalResult result = success();
    if (auto found = dyn_cast<PartialNormOp>(op))
      result = checkNorm(found);
    else if (auto part = dyn_cast<ShardNormOp>(op))
      result = checkPart(part);
    else if (auto factor = dyn_cast<ClipFactorOp>(op))
      result = checkFactor(factor);
    else if (auto update = dyn_cast<UpdateOp>(op))
      result = checkUpdate(update);
    if (failed(result))
      return failure();
  }
  return success();
}

LogicalResult fsdp::checkLossScaleOp(Step &step, StringRef label) {
  LossScaleOp first;
  for (auto scale : step.getBody().getOps<LossScaleOp>()) {
    if (!first) {
      first = scale;
      continue;
    }
    InFlightDiagnostic diag = scale.emitError(label) << ": the loss is scaled twice";
    diag.attachNote(first.getLoc()) << "the first time is here";
    return diag;
  }
  const bool isExpected = step.optimizer && step.optimizer.getLossScale() && !step.isEvaluation();
  if (isExpected == bool(first))
    return success();
  if (!first)
    return step.optimizer.emitError(label) << ": has a 'loss_scale', but the step has no '"
                                           << LossScaleOp::getOperationName() << "'";
  return first.emitError(label) << ": scales the loss, but "
                                << (step.isEvaluation() ? "an evaluation has no backward"
                                                        : "the optimizer has no 'loss_scale'");
}

LogicalResult fsdp::checkClipping(Step &step) { return Checker(step).run(); }
