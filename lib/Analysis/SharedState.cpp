//===- SharedState.cpp - That the steps of a program have one state --------===//

#include "ShardingDiagnostics.h"
#include "fsdp/Analysis/Program.h"
#include "fsdp/Analysis/Step.h"

using namespace mlir;
using namespace fsdp;

/// `what` is not as the training step has it, which `other` declares.
static LogicalResult differs(Operation *own, const Twine &what, Operation *other) {
  return fail(own, "P6: " + what + " differ from the training step's", other,
              "which are declared here");
}

static LogicalResult checkParam(ParamOp own, ParamOp other) {
  if (other && own.getType() == other.getType() && own.getFrozen() == other.getFrozen())
    return success();
  return differs(own, "type and training of parameter @" + own.getSymName(), other);
}

/// What the declaration says of the state; of groups without what is decided for one step.
static LogicalResult checkGroup(GroupOp own, GroupOp other, bool isPlanned) {
  std::string name = ("group @" + own.getSymName()).str();
  if (own.getSymName() != other.getSymName() || own.getParamsAttr() != other.getParamsAttr())
    return differs(own, "name and parameters of " + name, other);
  if (own.getAxisAttr() != other.getAxisAttr() ||
      own.getReplicateAxisAttr() != other.getReplicateAxisAttr() ||
      own.getLayout() != other.getLayout() ||
      own.getGatherDtypeAttr() != other.getGatherDtypeAttr())
    return differs(own, "axes, layout and dtype of " + name, other);
  if (isPlanned && own.getOffsetsAttr() != other.getOffsetsAttr())
    return differs(own, "the places of " + name + " in the arena", other);
  return success();
}

static LogicalResult checkBuffer(BufferOp own, BufferOp other, bool isPlanned) {
  if (other && own.getType() == other.getType() &&
      (!isPlanned || own.getOffset() == other.getOffset()))
    return success();
  return differs(own, "type and place of buffer @" + own.getSymName(), other);
}

static LogicalResult checkState(ModuleOp step, ModuleOp training, bool isPlanned) {
  for (auto mesh : step.getOps<MeshOp>())
    for (auto other : training.getOps<MeshOp>())
      if (mesh.getSizes() != other.getSizes() || mesh.getAxesAttr() != other.getAxesAttr())
        return differs(mesh, "axes of the mesh", other);
  for (auto param : step.getOps<ParamOp>())
    if (failed(checkParam(param, training.lookupSymbol<ParamOp>(param.getSymName()))))
      return failure();
  SmallVector<GroupOp> groups(step.getOps<GroupOp>()), others(training.getOps<GroupOp>());
  if (groups.size() != others.size())
    return step.emitError("P6: the step has ")
           << groups.size() << " groups, the training step " << others.size();
  for (auto [group, other] : llvm::zip_equal(groups, others))
    if (failed(checkGroup(group, other, isPlanned)))
      return failure();
  for (auto buffer : step.getOps<BufferOp>())
    if (failed(
            checkBuffer(buffer, training.lookupSymbol<BufferOp>(buffer.getSymName()), isPlanned)))
      return failure();
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
