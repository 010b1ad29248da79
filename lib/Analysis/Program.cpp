//===- Program.cpp - Several steps over one state --------------------------===//

#include "fsdp/Analysis/Program.h"

#include "ShardingDiagnostics.h"
#include "fsdp/Analysis/Step.h"
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

LogicalResult fsdp::takeStateOf(ModuleOp training, ModuleOp evaluation) {
  SmallVector<ParamOp> own(evaluation.getOps<ParamOp>()), trained(training.getOps<ParamOp>());
  for (size_t i = 0; i < std::max(own.size(), trained.size()); ++i) {
    if (i >= trained.size())
      return fail(own[i],
                  "the training step does not have parameter @" + own[i].getSymName() +
                      " of the evaluation",
                  nullptr, "");
    if (i >= own.size())
      return fail(trained[i],
                  "the evaluation does not have parameter @" + trained[i].getSymName() +
                      " of the training step",
                  nullptr, "");
    if (own[i].getSymName() != trained[i].getSymName() || own[i].getType() != trained[i].getType())
      return fail(own[i],
                  "parameter " + Twine(i) + " is @" + own[i].getSymName() + " of " +
                      describe(own[i].getType()) + " in the evaluation, @" +
                      trained[i].getSymName() + " of " + describe(trained[i].getType()) +
                      " in the training step",
                  trained[i], kTrainingHasIt);
    own[i].setFrozen(trained[i].getFrozen());
  }
  for (auto buffer : evaluation.getOps<BufferOp>()) {
    auto other = training.lookupSymbol<BufferOp>(buffer.getSymName());
    if (!other)
      return fail(buffer,
                  "the training step does not have buffer @" + buffer.getSymName() +
                      " of the evaluation",
                  nullptr, "");
    if (other.getType() != buffer.getType())
      return fail(buffer,
                  "buffer @" + buffer.getSymName() + " is " + describe(buffer.getType()) +
                      " in the evaluation, " + describe(other.getType()) + " in the training step",
                  other, kTrainingHasIt);
  }
  for (Operation &op : llvm::make_early_inc_range(*evaluation.getBody()))
    if (isa<OptimizerOp, OptimizerGroupOp>(op))
      op.erase();
  OpBuilder builder = OpBuilder::atBlockBegin(evaluation.getBody());
  for (OptimizerOp optimizer : training.getOps<OptimizerOp>())
    builder.clone(*optimizer);
  for (OptimizerGroupOp group : training.getOps<OptimizerGroupOp>())
    builder.clone(*group);
  return success();
}

OwningOpRef<ModuleOp> fsdp::makeProgram(OwningOpRef<ModuleOp> training,
                                        OwningOpRef<ModuleOp> evaluation) {
  Builder builder(training->getContext());
  OwningOpRef<ModuleOp> program = ModuleOp::create(training->getLoc());
  (*program)->setAttr(FsdpDialect::getPhaseAttrName(),
                      (*training)->getAttr(FsdpDialect::getPhaseAttrName()));
  // Where optimizer state lies, only the training step's schedule has decided.
  for (auto group : training->getOps<GroupOp>())
    if (auto other = evaluation->lookupSymbol<GroupOp>(group.getSymName()))
      other.setOptimizerStateAttr(group.getOptimizerStateAttr());
  training->setSymName(kTrainingName);
  evaluation->setSymName(kEvaluationName);
  program->push_back(training.release());
  program->push_back(evaluation.release());
  return program;
}
