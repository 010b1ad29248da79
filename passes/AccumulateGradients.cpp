//===- AccumulateGradients.cpp - A step of several microbatches -----------===//

#include "fsdp/Analysis/Stages.h"
#include "fsdp/IR/AtenBuilders.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "passes/Passes.h"

#include <limits>

namespace fsdp {
#define GEN_PASS_DEF_ACCUMULATEGRADIENTS
#include "passes/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;
using aten::CallOp;
using aten::Phase;

namespace {

/// Repeats the step of one microbatch. All microbatches share constants, parameters, and the
/// initial values of buffers.
class Repeater {
public:
  Repeater(Step &step, int64_t microbatches)
      : step(step), count(microbatches), builder(step.module.getContext()) {}
  LogicalResult run(bool isMean);

private:
  LogicalResult collect();
  LogicalResult divideLoss();
  void repeat(int64_t microbatch);
  Operation *clone(Operation *op, int64_t microbatch);
  /// Makes the next microbatch read the buffers as `microbatch` has written them.
  void passBuffersOn(int64_t microbatch);
  CallOp call(StringRef callee, ValueRange operands, ArrayRef<Attribute> arguments, Phase phase,
              int64_t microbatch);

  Step &step;
  const int64_t count;
  OpBuilder builder;
  SmallVector<Operation *> body; // the operations that each microbatch repeats, in order
  SmallVector<ReadOp> bufferReads;
  SmallVector<WriteOp> writes; // of the latest microbatch
  Operation *end = nullptr;    // the first update, or the terminator
  Operation *terminator = nullptr;
  IRMapping mapping; // from the first microbatch to the latest
  int64_t numDraws = 0;
};

} // namespace

LogicalResult Repeater::collect() {
  Block &block = step.getBody();
  auto updates = block.getOps<UpdateOp>();
  end = updates.empty() ? terminator : (*updates.begin()).getOperation();
  for (Operation &op : block.without_terminator()) {
    if (auto call = dyn_cast<CallOp>(op)) {
      if (call.getMicrobatch() != 0)
        return call.emitError("the step has several microbatches already");
      numDraws = std::max<int64_t>(numDraws, call.getRng().value_or(-1) + 1);
    }
    if (auto read = dyn_cast<ReadOp>(op)) {
      if (!step.paramByName.contains(read.getSourceAttr().getAttr()))
        bufferReads.push_back(read);
      continue;
    }
    auto input = dyn_cast<InputOp>(op);
    if (isa<aten::ConstantOp, LossScaleOp, UpdateOp>(op) ||
        (input && !isa<RankedTensorType>(input.getResult().getType())))
      continue;
    if (auto write = dyn_cast<WriteOp>(op))
      writes.push_back(write);
    body.push_back(&op);
  }
  // Shared operations move before the first microbatch.
  auto shared = llvm::filter_to_vector(
      llvm::map_range(block, [](Operation &op) { return &op; }),
      [](Operation *op) { return isa<aten::ConstantOp, ReadOp, InputOp, LossScaleOp>(op); });
  for (Operation *op : llvm::reverse(shared))
    op->moveBefore(&block, block.begin());
  return success();
}

CallOp Repeater::call(StringRef callee, ValueRange operands, ArrayRef<Attribute> arguments,
                      Phase phase, int64_t microbatch) {
  MLIRContext *context = builder.getContext();
  auto type = cast<RankedTensorType>(operands.front().getType()).cloneWithEncoding({});
  auto scope = aten::ScopeAttr::get(context, builder.getStringAttr(""), {}, microbatch);
  return CallOp::create(builder, operands.front().getLoc(), TypeRange(type), operands,
                        builder.getStringAttr(callee), builder.getArrayAttr(arguments), phase,
                        scope, /*rng=*/nullptr, /*offsets=*/nullptr);
}

static CallOp findUser(Value value, Phase phase, StringRef name) {
  for (Operation *user : value.getUsers())
    if (auto call = dyn_cast<CallOp>(user);
        call && call.getPhase() == phase && call.getBaseName() == name)
      return call;
  return {};
}

/// Adds `loss / M` before the backward, as users write it; the gradient of the loss is divided by
/// M.
LogicalResult Repeater::divideLoss() {
  MLIRContext *context = builder.getContext();
  Value loss = terminator->getOperand(0);
  // The forward's last value, which the backward begins with.
  CallOp scaled = step.getLossScale() ? findUser(loss, Phase::Forward, "mul") : CallOp();
  CallOp gradient = findUser(scaled ? scaled.getResult(0) : loss, Phase::Backward, "ones_like");
  CallOp reader = scaled ? scaled : gradient;
  if (scaled && gradient) {
    gradient = findUser(gradient.getResult(0), Phase::Backward, "mul");
    if (gradient && gradient.getResult(0).getType() != loss.getType())
      gradient = findUser(gradient.getResult(0), Phase::Backward, "_to_copy");
  }
  if (!gradient)
    return terminator->emitError("the loss is not divided by the number of microbatches: the "
                                 "backward does not begin with ones of its shape ('ones_like'); "
                                 "use loss = sum (--microbatch-loss sum)");
  Attribute arguments[] = {aten::OperandAttr::get(context), builder.getI64IntegerAttr(count)};
  builder.setInsertionPoint(reader);
  CallOp mean = call("div.Tensor", loss, arguments, Phase::Forward, 0);
  reader->replaceUsesOfWith(loss, mean.getResult(0));
  builder.setInsertionPointAfter(gradient);
  CallOp divided = call("div.Tensor", gradient.getResult(0), arguments, Phase::Backward, 0);
  gradient.getResult(0).replaceAllUsesExcept(divided.getResult(0), divided);
  terminator->setOperand(0, mean.getResult(0));
  return success();
}

Operation *Repeater::clone(Operation *op, int64_t microbatch) {
  Operation *again = builder.clone(*op, mapping);
  if (auto call = dyn_cast<CallOp>(again)) {
    aten::ScopeAttr scope = call.getScope();
    call.setScopeAttr(
        aten::ScopeAttr::get(call.getContext(), scope.getModule(), scope.getCalls(), microbatch));
    if (std::optional<int64_t> rng = call.getRng())
      call.setRng(*rng + microbatch * numDraws);
  } else if (auto input = dyn_cast<InputOp>(again)) {
    input.setMicrobatch(microbatch);
  } else if (auto grad = dyn_cast<GradOp>(again)) {
    grad.setMicrobatch(microbatch);
  }
  return again;
}

void Repeater::passBuffersOn(int64_t microbatch) {
  DenseMap<Attribute, WriteOp> writeOf;
  for (WriteOp write : writes)
    writeOf[write.getBufferAttr()] = write;
  for (ReadOp read : bufferReads) {
    WriteOp write = writeOf.lookup(read.getSourceAttr());
    if (!write)
      continue;
    Value value = write.getValue();
    builder.setInsertionPoint(write);
    if (value.getType() != read.getResult().getType())
      value = aten::cloneContiguously(
          builder, value, Phase::Forward,
          aten::ScopeAttr::get(builder.getContext(), builder.getStringAttr(""), {}, microbatch));
    mapping.map(read.getResult(), value);
  }
}

void Repeater::repeat(int64_t microbatch) {
  passBuffersOn(microbatch - 1);
  SmallVector<WriteOp> replaced = std::exchange(writes, {});
  builder.setInsertionPoint(end);
  for (Operation *op : body)
    if (auto write = dyn_cast<WriteOp>(clone(op, microbatch)))
      writes.push_back(write);
  // Only the last microbatch writes buffers. The writes of the first one are still needed for
  // cloning.
  if (microbatch > 1)
    for (WriteOp write : replaced)
      write.erase();
}

LogicalResult Repeater::run(bool isMean) {
  terminator = step.getBody().getTerminator();
  if (isMean && failed(divideLoss()))
    return failure();
  if (failed(collect()))
    return failure();
  SmallVector<WriteOp> firstWrites = writes;
  Value loss = terminator->getOperand(0), total = loss;
  for (int64_t microbatch = 1; microbatch < count; ++microbatch) {
    repeat(microbatch);
    Value added = mapping.lookup(loss);
    builder.setInsertionPointAfterValue(added);
    auto operand = aten::OperandAttr::get(builder.getContext());
    Attribute arguments[] = {operand, operand, builder.getI64IntegerAttr(1)};
    Value operands[] = {total, added};
    total = call("add.Tensor", operands, arguments, Phase::Forward, microbatch).getResult(0);
  }
  terminator->setOperand(0, total);
  for (WriteOp write : firstWrites)
    write.erase();
  return success();
}

//===----------------------------------------------------------------------===//
// 1F1B
//===----------------------------------------------------------------------===//

/// Sorts the operations before the updates by unit, and keeps their order within a unit. The final
/// writes of buffers stay after all units.
static LogicalResult interleave(Step &step) {
  FailureOr<Stages> stages = Stages::find(step);
  if (failed(stages))
    return failure();
  struct Placed {
    Operation *op;
    int64_t unit;
  };
  SmallVector<Placed> placed;
  // For each microbatch, the unit of the last call.
  SmallVector<int64_t> before(step.getMicrobatches());
  Operation *end = step.getBody().getTerminator();
  for (Operation &op : step.getBody()) {
    if (isa<UpdateOp>(op)) {
      end = &op;
      break;
    }
    if (auto call = dyn_cast<CallOp>(op)) {
      int64_t unit = stages->getUnit(call);
      before[call.getMicrobatch()] = unit;
      placed.push_back({&op, unit});
    } else if (auto grad = dyn_cast<GradOp>(op)) {
      auto source = grad.getValue().getDefiningOp<CallOp>();
      placed.push_back({&op, source && source.getPhase() == Phase::Backward
                                 ? stages->getUnit(source)
                                 : before[grad.getMicrobatch()]});
    } else if (auto input = dyn_cast<InputOp>(op)) {
      placed.push_back({&op, stages->getUnit(Phase::Forward, /*stage=*/0, input.getMicrobatch())});
    } else if (isa<WriteOp>(op)) {
      placed.push_back({&op, std::numeric_limits<int64_t>::max()});
    }
  }
  llvm::stable_sort(placed, [](const Placed &a, const Placed &b) { return a.unit < b.unit; });
  for (const Placed &entry : placed)
    entry.op->moveBefore(end);
  return success();
}

namespace {
struct AccumulateGradientsPass
    : public fsdp::impl::AccumulateGradientsBase<AccumulateGradientsPass> {
  using AccumulateGradientsBase::AccumulateGradientsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(expectPhase(module, getArgument(), ModulePhase::Captured)))
      return signalPassFailure();
    FailureOr<Step> step = Step::collect(module);
    if (failed(step))
      return signalPassFailure();
    AccumulationAttr asked = step->getAccumulation();
    if (!asked || asked.getMicrobatches() == 1)
      return;
    for (GroupOp group : step->groups)
      if (group.getGradientSync() == GradientSync::ReduceScatter && !group.getReplicateAxis()) {
        group.emitError("gradient_sync is reduce_scatter for group @")
            << group.getSymName() << ", which is not replicated: say each or last, or use a mesh "
            << "with an axis of replicas";
        return signalPassFailure();
      }
    int64_t count = asked.getMicrobatches();
    if (failed(Repeater(*step, count).run(asked.getLoss() == LossReduction::Mean)) ||
        (step->isInterleaved() && failed(interleave(*step))))
      return signalPassFailure();
    remark::analysis(module.getLoc(),
                     remark::RemarkOpts::name("microbatches").category(getArgument()))
        << remark::metric("Microbatches", count);
  }
};
} // namespace
