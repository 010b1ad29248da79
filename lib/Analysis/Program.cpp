//===- Program.cpp - Several steps over one state --------------------------===//

#include "fsdp/Analysis/Program.h"

#include "ShardingDiagnostics.h"
#include "fsdp/Analysis/Step.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace fsdp;

SmallVector<ModuleOp> fsdp::getSteps(ModuleOp module) {
  if (!isProgram(module))
    return {module};
  return SmallVector<ModuleOp>(module.getOps<ModuleOp>());
}

static constexpr char kTrainingHasIt[] = "the training step has it here";

static std::string describe(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

static bool isEvaluation(ModuleOp captured) {
  return captured.lookupSymbol<func::FuncOp>(kEvaluationName) != nullptr;
}

/// `what` is the other step's name in messages: "the evaluation" or "the other training step".
static LogicalResult takeParameters(ModuleOp training, ModuleOp other, const std::string &what) {
  SmallVector<ParamOp> own(other.getOps<ParamOp>()), trained(training.getOps<ParamOp>());
  for (size_t i = 0; i < std::max(own.size(), trained.size()); ++i) {
    if (i >= trained.size())
      return fail(own[i],
                  "the training step does not have parameter @" + own[i].getSymName() + " of " +
                      what,
                  nullptr, "");
    if (i >= own.size())
      return fail(trained[i],
                  what + " does not have parameter @" + trained[i].getSymName() +
                      " of the training step",
                  nullptr, "");
    if (own[i].getSymName() != trained[i].getSymName() || own[i].getType() != trained[i].getType())
      return fail(own[i],
                  "parameter " + Twine(i) + " is @" + own[i].getSymName() + " of " +
                      describe(own[i].getType()) + " in " + what + ", @" + trained[i].getSymName() +
                      " of " + describe(trained[i].getType()) + " in the training step",
                  trained[i], kTrainingHasIt);
    if (isEvaluation(other))
      own[i].setFrozen(trained[i].getFrozen());
    else if (own[i].getFrozen() != trained[i].getFrozen())
      return fail(own[i],
                  "parameter @" + own[i].getSymName() + " is " +
                      (own[i].getFrozen() ? "frozen" : "trained") + " in " + what + ", " +
                      (trained[i].getFrozen() ? "frozen" : "trained") + " in the training step",
                  trained[i], kTrainingHasIt);
  }
  return success();
}

/// Replaces reads of a transient buffer that no step writes by a literal.
static void makeLiteral(BufferOp buffer, ArrayRef<ReadOp> reads) {
  for (ReadOp read : reads) {
    OpBuilder builder(read);
    Location location = NameLoc::get(buffer.getSymNameAttr(), read.getLoc());
    auto constant = aten::ConstantOp::create(builder, location, read.getResult().getType(),
                                             *buffer.getInit(), /*offset=*/IntegerAttr());
    read.replaceAllUsesWith(constant.getResult());
    read.erase();
  }
  buffer.erase();
}

static LogicalResult takeBuffer(BufferOp buffer, ModuleOp training, const std::string &what) {
  auto same = training.lookupSymbol<BufferOp>(buffer.getSymName());
  if (!same)
    return fail(buffer,
                "the training step does not have buffer @" + buffer.getSymName() + " of " + what,
                nullptr, "");
  if (same.getType() != buffer.getType())
    return fail(buffer,
                "buffer @" + buffer.getSymName() + " is " + describe(buffer.getType()) + " in " +
                    what + ", " + describe(same.getType()) + " in the training step",
                same, kTrainingHasIt);
  // A run initializes its buffers once, with the training step's values.
  buffer.setInitAttr(same.getInitAttr());
  return success();
}

static LogicalResult takeBuffers(ModuleOp training, ModuleOp other, const std::string &what) {
  llvm::StringMap<SmallVector<ReadOp>> readsOf;
  llvm::StringSet<> written;
  other.walk([&](Operation *op) {
    if (auto read = dyn_cast<ReadOp>(op))
      readsOf[read.getSource()].push_back(read);
    else if (auto write = dyn_cast<WriteOp>(op))
      written.insert(write.getBuffer());
  });
  for (auto buffer : llvm::make_early_inc_range(other.getOps<BufferOp>())) {
    StringRef name = buffer.getSymName();
    if (buffer.getInit() && !written.contains(name) && !training.lookupSymbol(name))
      makeLiteral(buffer, readsOf.lookup(name));
    else if (failed(takeBuffer(buffer, training, what)))
      return failure();
  }
  return success();
}

LogicalResult fsdp::takeStateOf(ModuleOp training, ModuleOp other) {
  const std::string what = isEvaluation(other) ? "the evaluation" : "the other training step";
  if (failed(takeParameters(training, other, what)) || failed(takeBuffers(training, other, what)))
    return failure();
  for (Operation &op : llvm::make_early_inc_range(*other.getBody()))
    if (isa<OptimizerOp, OptimizerGroupOp>(op))
      op.erase();
  OpBuilder builder = OpBuilder::atBlockBegin(other.getBody());
  for (OptimizerOp optimizer : training.getOps<OptimizerOp>())
    builder.clone(*optimizer);
  for (OptimizerGroupOp group : training.getOps<OptimizerGroupOp>())
    builder.clone(*group);
  return success();
}

OwningOpRef<ModuleOp> fsdp::makeProgram(MutableArrayRef<OwningOpRef<ModuleOp>> steps) {
  ModuleOp first = *steps.front();
  Builder builder(first.getContext());
  OwningOpRef<ModuleOp> program = ModuleOp::create(first.getLoc());
  (*program)->setAttr(FsdpDialect::getPhaseAttrName(),
                      first->getAttr(FsdpDialect::getPhaseAttrName()));
  unsigned numTraining = 0, numEvaluations = 0;
  auto name = [](StringRef kind, unsigned number) {
    return number == 1 ? kind.str() : (kind + "_" + Twine(number)).str();
  };
  for (OwningOpRef<ModuleOp> &step : steps) {
    if (isEvaluation(*step)) {
      step->setSymName(name(kEvaluationName, ++numEvaluations));
      // Only the schedules of training steps decide where optimizer state lies.
      for (auto group : first.getOps<GroupOp>())
        if (auto other = step->lookupSymbol<GroupOp>(group.getSymName()))
          other.setOptimizerStateAttr(group.getOptimizerStateAttr());
    } else {
      step->setSymName(name(kTrainingName, ++numTraining));
    }
    program->push_back(step.release());
  }
  return program;
}
