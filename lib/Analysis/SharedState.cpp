//===- SharedState.cpp - Checks of a program's shared state ---------------===//

#include "ShardingDiagnostics.h"
#include "fsdp/Analysis/Program.h"
#include "fsdp/Analysis/Step.h"
#include "mlir/IR/OperationSupport.h"

using namespace mlir;
using namespace fsdp;

namespace {
/// Compares the declarations of one step with those of the first one.
class Comparison {
public:
  Comparison(Step &step, Step &first, bool isPlanned)
      : step(step), first(first), isPlanned(isPlanned) {}

  LogicalResult run();

private:
  /// Diagnoses that `what`, as declared by `own`, differs from `other` of the first step.
  LogicalResult differs(Operation *own, const Twine &what, Operation *other);
  LogicalResult checkOptimizer();
  LogicalResult check(ParamOp own, ParamOp other);
  LogicalResult check(GroupOp own, GroupOp other);
  LogicalResult check(BufferOp own, BufferOp other);

  Step &step, &first;
  const bool isPlanned;
};
} // namespace

static StringRef getName(Step &step) { return step.module.getSymName().value_or(""); }

LogicalResult Comparison::differs(Operation *own, const Twine &what, Operation *other) {
  return fail(own,
              "P6: " + what + " of @" + getName(step) + " differ from those of @" + getName(first),
              other, "which are declared here");
}

static bool haveEqualContents(Operation *own, Operation *other) {
  return OperationEquivalence::isEquivalentTo(own, other, OperationEquivalence::IgnoreLocations);
}

LogicalResult Comparison::checkOptimizer() {
  for (Step *other : {&step, &first})
    if (!other->optimizer)
      return fail(other->module, "P6: @" + getName(*other) + " has no optimizer", nullptr, "");
  if (!haveEqualContents(step.optimizer, first.optimizer))
    return differs(step.optimizer, "options of the optimizer", first.optimizer);
  SmallVector<OptimizerGroupOp> own(step.module.getOps<OptimizerGroupOp>()),
      others(first.module.getOps<OptimizerGroupOp>());
  if (own.size() != others.size())
    return differs(step.optimizer, "groups of the optimizer", first.optimizer);
  for (auto [group, other] : llvm::zip_equal(own, others))
    if (!haveEqualContents(group, other))
      return differs(group, "groups of the optimizer", other);
  return success();
}

LogicalResult Comparison::check(ParamOp own, ParamOp other) {
  if (other && own.getType() == other.getType() && own.getFrozen() == other.getFrozen())
    return success();
  return differs(own, "type and training of parameter @" + own.getSymName(), other);
}

/// Compares the state of a group that the steps share. Each step decides for itself when it gathers
/// and reshards the group.
LogicalResult Comparison::check(GroupOp own, GroupOp other) {
  std::string name = ("group @" + own.getSymName()).str();
  if (own.getSymName() != other.getSymName() || own.getParamsAttr() != other.getParamsAttr())
    return differs(own, "name and parameters of " + name, other);
  if (step.getMesh(own).getSizes() != first.getMesh(other).getSizes() ||
      own.getAxisAttr() != other.getAxisAttr() ||
      own.getReplicateAxisAttr() != other.getReplicateAxisAttr() ||
      own.getLayout() != other.getLayout() || own.getShardDimsAttr() != other.getShardDimsAttr() ||
      own.getGatherDtypeAttr() != other.getGatherDtypeAttr() ||
      own.getAllGatherExtensionAttr() != other.getAllGatherExtensionAttr() ||
      own.isStateOnHost() != other.isStateOnHost() ||
      own.areParametersOnHost() != other.areParametersOnHost())
    return differs(
        own, "axes, layout, shard_dims, dtype, extension and place of optimizer state of " + name,
        other);
  if (isPlanned && own.getPlacesAttr() != other.getPlacesAttr())
    return differs(own, "the places of " + name + " in the arena", other);
  return success();
}

LogicalResult Comparison::check(BufferOp own, BufferOp other) {
  if (other && own.getType() == other.getType() && own.getInitAttr() == other.getInitAttr() &&
      (!isPlanned || own.getOffset() == other.getOffset()))
    return success();
  return differs(own, "type, init and place of buffer @" + own.getSymName(), other);
}

LogicalResult Comparison::run() {
  for (auto [mesh, other] : llvm::zip(step.meshes, first.meshes))
    if (mesh.getSizes() != other.getSizes() || mesh.getAxesAttr() != other.getAxesAttr())
      return differs(mesh, "axes of the mesh", other);
  if (failed(checkOptimizer()))
    return failure();
  for (ParamOp param : step.params)
    if (failed(check(param, first.paramByName.lookup(param.getSymNameAttr()))))
      return failure();
  if (step.groups.size() != first.groups.size())
    return step.module.emitError("P6: @")
           << getName(step) << " has " << step.groups.size() << " groups, @" << getName(first)
           << ' ' << first.groups.size();
  for (auto [group, other] : llvm::zip_equal(step.groups, first.groups))
    if (failed(check(group, other)))
      return failure();
  for (auto buffer : step.module.getOps<BufferOp>())
    if (failed(check(buffer, first.module.lookupSymbol<BufferOp>(buffer.getSymName()))))
      return failure();
  auto haveEqual = [&](StringRef attribute) {
    return step.module->getAttr(attribute) == first.module->getAttr(attribute);
  };
  if (isPlanned && (!haveEqual(FsdpDialect::getArenaAttrName()) ||
                    !haveEqual(FsdpDialect::getHostArenaAttrName())))
    return step.module.emitError("P6: the arenas of @")
           << getName(step) << " and @" << getName(first) << " have two sizes";
  return success();
}

/// True if both steps have the same samples: inputs have equal types except for the first
/// dimension, which counts samples.
static bool haveEqualSamples(Step &step, Step &other) {
  auto getSamples = [](Step &of) {
    SmallVector<std::tuple<StringRef, Type, ArrayRef<int64_t>>> samples;
    for (auto input : of.getBody().getOps<InputOp>())
      if (auto type = dyn_cast<RankedTensorType>(input.getResult().getType());
          type && input.getMicrobatch() == 0 && type.getRank() > 0)
        samples.emplace_back(input.getName(), type.getElementType(), type.getShape().drop_front());
    return samples;
  };
  return getSamples(step) == getSamples(other);
}

/// A program holds steps and common attributes only. Other operations and attributes would have no
/// effect: they are refused.
static LogicalResult checkOnlySteps(ModuleOp program) {
  for (Operation &op : *program.getBody())
    if (!isa<ModuleOp>(op))
      return op.emitError("P6: a program holds steps alone; this belongs to one of them");
  ModuleOp first = getSteps(program).front();
  for (NamedAttribute attribute : program->getAttrs()) {
    StringAttr name = attribute.getName();
    if (name.getValue() == FsdpDialect::getArenaAttrName() ||
        name.getValue() == FsdpDialect::getPeakAttrName()) {
      if (attribute.getValue() != first->getAttr(name))
        return program.emitError("P6: '")
               << name.getValue() << "' of the program is not that of its steps";
    } else if (name.getValue().starts_with("fsdp.") &&
               name.getValue() != FsdpDialect::getPhaseAttrName()) {
      return program.emitError("P6: the program has '")
             << name.getValue() << "', which its steps have";
    }
  }
  return success();
}

LogicalResult fsdp::checkSharedState(ModuleOp program) {
  if (failed(checkOnlySteps(program)))
    return failure();
  std::vector<Step> steps;
  for (ModuleOp module : getSteps(program)) {
    FailureOr<Step> step = Step::collect(module);
    if (failed(step))
      return failure();
    if (!steps.empty() && steps.back().isEvaluation() && !step->isEvaluation())
      return module.emitError("P6: behind an evaluation a program has no step that trains");
    if (steps.empty() && step->isEvaluation())
      return module.emitError("P6: the first step of a program trains, this one is @")
             << kEvaluationName;
    if (getPhase(module) != getPhase(program))
      return module.emitError("P6: the step is ")
             << stringifyModulePhase(getPhase(module)) << ", the program is "
             << stringifyModulePhase(getPhase(program));
    for (Step &other : steps)
      if (step->isEvaluation() == other.isEvaluation() && haveEqualSamples(*step, other))
        return module.emitError("P6: samples of @")
               << getName(*step) << " have the shape of those of @" << getName(other)
               << ": no sample says to which of the two steps it belongs";
    steps.push_back(std::move(*step));
    if (failed(Comparison(steps.back(), steps.front(), getPhase(program) == ModulePhase::Planned)
                   .run()))
      return failure();
  }
  return success();
}
