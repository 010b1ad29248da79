//===- Program.cpp - Several steps over one state --------------------------===//

#include "fsdp/Analysis/Program.h"

#include "fsdp/Analysis/Step.h"

using namespace mlir;
using namespace fsdp;

SmallVector<ModuleOp> fsdp::getSteps(ModuleOp module) {
  if (!isProgram(module))
    return {module};
  return SmallVector<ModuleOp>(module.getOps<ModuleOp>());
}

static InFlightDiagnostic &&withNote(InFlightDiagnostic &&diag, Operation *other) {
  diag.attachNote(other->getLoc()) << "the training step has it here";
  return std::move(diag);
}

LogicalResult fsdp::takeStateOf(ModuleOp training, ModuleOp evaluation) {
  SmallVector<ParamOp> own(evaluation.getOps<ParamOp>()), trained(training.getOps<ParamOp>());
  for (size_t i = 0; i < std::max(own.size(), trained.size()); ++i) {
    if (i >= trained.size())
      return own[i].emitError("the evaluation has parameter @")
             << own[i].getSymName() << ", which the training step has not";
    if (i >= own.size())
      return trained[i].emitError("the training step has parameter @")
             << trained[i].getSymName() << ", which the evaluation has not";
    if (own[i].getSymName() != trained[i].getSymName() || own[i].getType() != trained[i].getType())
      return withNote(own[i].emitError("the evaluation's parameter ")
                          << i << " is @" << own[i].getSymName() << " of " << own[i].getType()
                          << ", the training step's is @" << trained[i].getSymName() << " of "
                          << trained[i].getType(),
                      trained[i]);
    own[i].setFrozen(trained[i].getFrozen());
  }
  for (auto buffer : evaluation.getOps<BufferOp>()) {
    auto other = training.lookupSymbol<BufferOp>(buffer.getSymName());
    if (!other)
      return buffer.emitError("the evaluation has buffer @")
             << buffer.getSymName() << ", which the training step has not";
    if (other.getType() != buffer.getType())
      return withNote(buffer.emitError("the evaluation's buffer @")
                          << buffer.getSymName() << " is " << buffer.getType()
                          << ", the training step's is " << other.getType(),
                      other);
  }
  for (OptimizerOp optimizer : llvm::make_early_inc_range(evaluation.getOps<OptimizerOp>()))
    optimizer.erase();
  OpBuilder builder = OpBuilder::atBlockBegin(evaluation.getBody());
  for (OptimizerOp optimizer : training.getOps<OptimizerOp>())
    builder.clone(*optimizer);
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
