//===- SharedState.cpp - That the steps of a program have one state --------===//

#include "fsdp/Analysis/Program.h"
#include "fsdp/Analysis/Step.h"

using namespace mlir;
using namespace fsdp;

static InFlightDiagnostic &&withNote(InFlightDiagnostic &&diag, Operation *other) {
  diag.attachNote(other->getLoc()) << "the training step has it here";
  return std::move(diag);
}

/// What the declaration says of the state; of groups without what is decided for one step.
static LogicalResult checkGroup(GroupOp own, GroupOp other, bool isPlanned) {
  auto differs = [&](StringRef what) {
    return withNote(own.emitError("P6: group @") << own.getSymName() << " has " << what
                                                 << " that the training step's has not",
                    other);
  };
  if (own.getParamsAttr() != other.getParamsAttr())
    return differs("parameters");
  if (own.getAxisAttr() != other.getAxisAttr() ||
      own.getReplicateAxisAttr() != other.getReplicateAxisAttr() ||
      own.getLayout() != other.getLayout() ||
      own.getGatherDtypeAttr() != other.getGatherDtypeAttr())
    return differs("an axis, a layout or a dtype");
  if (isPlanned && own.getOffsetsAttr() != other.getOffsetsAttr())
    return differs("places in the arena");
  return success();
}

static LogicalResult checkState(ModuleOp step, ModuleOp training, bool isPlanned) {
  for (auto mesh : step.getOps<MeshOp>())
    for (auto other : training.getOps<MeshOp>())
      if (mesh.getSizes() != other.getSizes() || mesh.getAxesAttr() != other.getAxesAttr())
        return withNote(mesh.emitError("P6: the mesh is not the training step's"), other);
  SmallVector<GroupOp> groups(step.getOps<GroupOp>()), others(training.getOps<GroupOp>());
  if (groups.size() != others.size())
    return step.emitError("P6: the step has ")
           << groups.size() << " groups, the training step " << others.size();
  for (auto [group, other] : llvm::zip_equal(groups, others)) {
    if (group.getSymName() != other.getSymName())
      return withNote(group.emitError("P6: group @")
                          << group.getSymName() << " stands where the training step has @"
                          << other.getSymName(),
                      other);
    if (failed(checkGroup(group, other, isPlanned)))
      return failure();
  }
  for (auto buffer : step.getOps<BufferOp>()) {
    auto other = training.lookupSymbol<BufferOp>(buffer.getSymName());
    if (!other || other.getType() != buffer.getType() ||
        (isPlanned && other.getOffset() != buffer.getOffset()))
      return buffer.emitError("P6: buffer @")
             << buffer.getSymName() << " is not, or not there, in the training step";
  }
  if (isPlanned && step->getAttr(FsdpDialect::getArenaAttrName()) !=
                       training->getAttr(FsdpDialect::getArenaAttrName()))
    return step.emitError("P6: the arenas of the steps have two sizes");
  return success();
}

LogicalResult fsdp::checkSharedState(ModuleOp program) {
  SmallVector<ModuleOp> steps = getSteps(program);
  for (auto [index, module] : llvm::enumerate(steps)) {
    FailureOr<Step> step = Step::collect(module);
    if (failed(step))
      return failure();
    if (index > 1 || step->isEvaluation() != (index == 1))
      return module.emitError("P6: a program is a step @")
             << kTrainingName << " and then a step @" << kEvaluationName;
    if (getPhase(module) != getPhase(program))
      return module.emitError("P6: the step is ")
             << stringifyModulePhase(getPhase(module)) << ", the program is "
             << stringifyModulePhase(getPhase(program));
    if (failed(checkState(module, steps[0], getPhase(program) == ModulePhase::Planned)))
      return failure();
  }
  return success();
}
