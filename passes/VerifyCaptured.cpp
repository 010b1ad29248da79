//===- VerifyCaptured.cpp - Verifies a step of single-device training -----===//

#include "fsdp/Analysis/Clipping.h"
#include "fsdp/Analysis/OptimizerValues.h"
#include "fsdp/Analysis/ShardingChecks.h"
#include "fsdp/Analysis/StepStorage.h"
#include "passes/Passes.h"

namespace fsdp {
#define GEN_PASS_DEF_VERIFYCAPTURED
#include "passes/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;
using aten::CallOp;
using aten::Phase;

namespace {

/// One walk over the step.
class Checker {
public:
  explicit Checker(Step &step) : step(step) {}
  LogicalResult run();

private:
  LogicalResult checkSignature();
  LogicalResult visit(CallOp call);
  LogicalResult checkDraw(CallOp call, int64_t position);
  bool isRepetition(CallOp copy, CallOp original);
  LogicalResult visit(InputOp input);
  LogicalResult visit(GradOp grad);
  LogicalResult visit(UpdateOp update);
  LogicalResult checkForwardOnly(Operation &op);
  LogicalResult checkEnd();

  /// Records `op` under `key`; diagnoses `op` if the key is taken.
  template <typename KeyT>
  LogicalResult takeOnce(DenseMap<KeyT, Operation *> &known, KeyT key, Operation *op,
                         const Twine &message);

  Step &step;
  using InMicrobatch = std::pair<StringAttr, int64_t>;
  DenseMap<InMicrobatch, Operation *> inputs, gradients;
  int64_t microbatches = 1; // that have gradients
  DenseMap<StringAttr, Operation *> updates, writes;
  DenseMap<int64_t, CallOp> draws; // for each position, its first draw
  /// Pairs of a value of the backward and a value of the forward that were found to be equal, the
  /// first computed again.
  DenseSet<std::pair<Value, Value>> repeated;
};

} // namespace

template <typename KeyT>
LogicalResult Checker::takeOnce(DenseMap<KeyT, Operation *> &known, KeyT key, Operation *op,
                                const Twine &message) {
  auto [it, isNew] = known.try_emplace(key, op);
  if (isNew)
    return success();
  InFlightDiagnostic diag = op->emitError(message);
  diag.attachNote(it->second->getLoc()) << "the first one is here";
  return diag;
}

/// C1.
LogicalResult Checker::checkSignature() {
  func::FuncOp function = step.function;
  if (function.getSymName() != kTrainingName && function.getSymName() != kEvaluationName)
    return function.emitError("C1: the step's function is named @")
           << function.getSymName() << ", expected @" << kTrainingName << " or @"
           << kEvaluationName;
  if (function.getNumArguments() != 0)
    return function.emitError("C1: the step has ")
           << function.getNumArguments() << " arguments; inputs are 'fsdp.input'";
  ArrayRef<Type> results = function.getResultTypes();
  auto loss = results.size() == 1 ? dyn_cast<RankedTensorType>(results[0]) : RankedTensorType();
  if (!loss || loss.getRank() != 0 || !isa<FloatType>(loss.getElementType()))
    return function.emitError("C1: the step returns ")
           << TypeRange(results) << ", expected one floating-point scalar, the loss";
  return success();
}

/// C2, C3, C5 and C6.
LogicalResult Checker::visit(CallOp call) {
  if (failed(checkFunctional(call, "C3")))
    return failure();
  if (call.getOffsets())
    return call.emitError("C2: has arena offsets, which memory planning writes");
  if (call.getPhase() == Phase::Forward)
    for (Value operand : call.getOperands())
      if (auto source = operand.getDefiningOp<CallOp>();
          source && source.getPhase() == Phase::Backward) {
        InFlightDiagnostic diag = call.emitError("C6: '")
                                  << call.getCallee() << "' of the forward, in module '"
                                  << call.getModule() << "', uses a value of the backward";
        diag.attachNote(source.getLoc()) << "which is made here";
        return diag;
      }
  if (std::optional<int64_t> rng = call.getRng())
    return checkDraw(call, *rng);
  return success();
}

/// True if `copy` repeats `original`: the same operator on the same values, or on values that
/// repeat the same values.
bool Checker::isRepetition(CallOp copy, CallOp original) {
  SmallVector<std::pair<CallOp, CallOp>> pending = {{copy, original}};
  while (!pending.empty()) {
    auto [again, first] = pending.pop_back_val();
    if (again.getCalleeAttr() != first.getCalleeAttr() ||
        again.getArgsAttr() != first.getArgsAttr() || again.getRng() != first.getRng() ||
        again.getNumOperands() != first.getNumOperands() ||
        again.getResultTypes() != first.getResultTypes())
      return false;
    for (auto [value, other] : llvm::zip_equal(again.getOperands(), first.getOperands())) {
      if (value == other || !repeated.insert({value, other}).second)
        continue;
      auto result = dyn_cast<OpResult>(value), otherResult = dyn_cast<OpResult>(other);
      auto call = value.getDefiningOp<CallOp>(), otherCall = other.getDefiningOp<CallOp>();
      if (!call || !otherCall || result.getResultNumber() != otherResult.getResultNumber())
        return false;
      pending.push_back({call, otherCall});
    }
  }
  return true;
}

/// Each position is drawn once, but the backward may repeat a draw of the forward to recompute its
/// result.
LogicalResult Checker::checkDraw(CallOp call, int64_t position) {
  auto [known, isNew] = draws.try_emplace(position, call);
  if (isNew)
    return success();
  CallOp first = known->second;
  bool isAgain = first.getPhase() == Phase::Forward && call.getPhase() == Phase::Backward;
  if (isAgain && isRepetition(call, first))
    return success();
  InFlightDiagnostic diag = call.emitError("C5: two draws of random numbers have position ")
                            << position;
  if (isAgain)
    diag << ", and that of the backward does not repeat the forward's on the same values";
  diag.attachNote(first.getLoc()) << "the first one is here";
  return diag;
}

LogicalResult Checker::visit(InputOp input) {
  StringRef name = input.getName();
  Type type = input.getResult().getType();
  Type scalar;
  if (name == "step")
    scalar = IntegerType::get(input.getContext(), 64);
  else if (name == "lr")
    scalar = Float64Type::get(input.getContext());
  if (scalar ? type != scalar : !isa<RankedTensorType>(type)) {
    InFlightDiagnostic diag = input.emitError("C5: input \"") << name << "\" has type " << type;
    if (scalar)
      diag << ", expected " << scalar;
    else
      diag << ", expected a tensor";
    return diag;
  }
  return takeOnce(inputs, InMicrobatch(input.getNameAttr(), input.getMicrobatch()), input,
                  "C5: two inputs are named \"" + name + "\"");
}

LogicalResult Checker::visit(GradOp grad) {
  microbatches = std::max(microbatches, grad.getMicrobatch() + 1);
  return takeOnce(gradients, InMicrobatch(grad.getParamAttr().getAttr(), grad.getMicrobatch()),
                  grad, "C4: parameter @" + grad.getParam() + " has two gradients");
}

LogicalResult Checker::visit(UpdateOp update) {
  auto expectInput = [&](Value value, StringRef name) -> LogicalResult {
    auto input = value.getDefiningOp<InputOp>();
    if (input && input.getName() == name)
      return success();
    return update.emitError("C5: takes its ")
           << name << " from elsewhere than input \"" << name << "\"";
  };
  if (!step.paramByName.contains(update.getTargetAttr().getAttr()))
    return update.emitError("C4: updates group @")
           << update.getTarget() << "; a captured step updates parameters";
  if (update.getGradient())
    return update.emitError("C2: takes a gradient; a captured step says it by 'fsdp.grad'");
  if (update.getClip())
    return update.emitError("C2: of a captured step has a clip factor; it clips by its optimizer's "
                            "'clip_grad_norm'");
  if (update.getScale())
    return update.emitError(
        "C2: of a captured step takes a loss scale; it divides gradients by its "
        "optimizer's 'loss_scale'");
  if (failed(expectInput(update.getStep(), "step")) || failed(expectInput(update.getLr(), "lr")))
    return failure();
  return takeOnce(updates, update.getTargetAttr().getAttr(), update,
                  "C4: parameter @" + update.getTarget() + " is updated twice");
}

/// C4.
LogicalResult Checker::checkEnd() {
  for (ParamOp param : step.params) {
    if (param.getFrozen()) {
      Operation *other = gradients.lookup({param.getSymNameAttr(), 0});
      if (!other)
        other = updates.lookup(param.getSymNameAttr());
      if (!other)
        continue;
      InFlightDiagnostic diag = param.emitError("C4: parameter @")
                                << param.getSymName() << " is frozen, but has '" << other->getName()
                                << "'";
      diag.attachNote(other->getLoc()) << "which is here";
      return diag;
    }
    for (int64_t microbatch = 0; microbatch < microbatches; ++microbatch)
      if (!gradients.contains({param.getSymNameAttr(), microbatch})) {
        InFlightDiagnostic diag = param.emitError("C4: parameter @")
                                  << param.getSymName() << " has no gradient";
        if (microbatches > 1)
          diag << " in microbatch " << microbatch;
        return diag;
      }
    if (!updates.contains(param.getSymNameAttr()))
      return param.emitError("C4: parameter @") << param.getSymName() << " is never updated";
  }
  if (!updates.empty() && !step.optimizer)
    return step.module.emitError("C4: the module has parameters but no optimizer");
  if (step.optimizer && failed(OptimizerTable::build(step.module)))
    return failure();
  return success();
}

/// C4: an evaluation is a forward alone.
LogicalResult Checker::checkForwardOnly(Operation &op) {
  auto call = dyn_cast<CallOp>(op);
  if (!isa<GradOp, UpdateOp>(op) && !(call && call.getPhase() == Phase::Backward))
    return success();
  return op.emitError("C4: an evaluation has no backward, no gradients and no updates");
}

LogicalResult Checker::run() {
  if (failed(checkSignature()) || failed(checkLossScaleOp(step, "C5")))
    return failure();
  for (Operation &op : step.getBody()) {
    if (step.isEvaluation() && failed(checkForwardOnly(op)))
      return failure();
    LogicalResult result = success();
    if (auto inStep = dyn_cast<StepOpInterface>(op); inStep && inStep.isOfGroups())
      result = op.emitError("C2: a captured step has no shards, collectives or norms: passes "
                            "insert them");
    else if (auto call = dyn_cast<CallOp>(op))
      result = visit(call);
    else if (auto input = dyn_cast<InputOp>(op))
      result = visit(input);
    else if (auto grad = dyn_cast<GradOp>(op))
      result = visit(grad);
    else if (auto update = dyn_cast<UpdateOp>(op))
      result = visit(update);
    else if (auto write = dyn_cast<WriteOp>(op))
      result = takeOnce(writes, write.getBufferAttr().getAttr(), write,
                        "C5: buffer @" + write.getBuffer() + " is written twice");
    if (failed(result))
      return failure();
  }
  return step.isEvaluation() ? success() : checkEnd();
}

namespace {
struct VerifyCapturedPass : public fsdp::impl::VerifyCapturedBase<VerifyCapturedPass> {
  void runOnOperation() override {
    markAllAnalysesPreserved();
    ModuleOp module = getOperation();
    if (failed(expectPhase(module, getArgument(), ModulePhase::Captured)))
      return signalPassFailure();
    FailureOr<Step> step = Step::collect(module);
    if (failed(step) || (!step->groups.empty() && failed(checkGroups(*step, "C7"))) ||
        failed(Checker(*step).run()))
      return signalPassFailure();
  }
};
} // namespace
