//===- Step.cpp - The declarations and the function of one step -----------===//

#include "fsdp/Analysis/Step.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace fsdp;

/// Stores `op` as the only one of its kind, or diagnoses the second.
template <typename OpT> static LogicalResult takeOnly(OpT op, OpT &only, StringRef what) {
  if (!only) {
    only = op;
    return success();
  }
  InFlightDiagnostic diag = op.emitError("M1: a module has one ") << what;
  diag.attachNote(only.getLoc()) << "the first one is here";
  return diag;
}

/// The product of all axes' sizes.
static int64_t countRanks(MeshOp mesh) {
  int64_t ranks = 1;
  for (int64_t size : mesh.getSizes())
    ranks *= size;
  return ranks;
}

/// Checks that the mesh has as many ranks as the model was exported for.
static LogicalResult checkExportedRanks(Step &step) {
  auto ranks = step.module->getAttrOfType<IntegerAttr>(FsdpDialect::getRanksAttrName());
  if (!ranks || ranks.getInt() == step.getWorldSize())
    return success();
  return step.meshes.front().emitError("M1: the model was exported for ")
         << ranks.getInt() << (ranks.getInt() == 1 ? " rank" : " ranks")
         << " (fsdpc.export(ranks=" << ranks.getInt() << ")), the mesh has " << step.getWorldSize();
}

FailureOr<Step> Step::collect(ModuleOp module) {
  Step step;
  step.module = module;
  for (Operation &op : *module.getBody()) {
    if (auto function = dyn_cast<func::FuncOp>(op)) {
      if (failed(takeOnly(function, step.function, "function, the step")))
        return failure();
    } else if (auto optimizer = dyn_cast<OptimizerOp>(op)) {
      if (failed(takeOnly(optimizer, step.optimizer, "optimizer")))
        return failure();
    } else if (auto mesh = dyn_cast<MeshOp>(op)) {
      step.meshes.push_back(mesh);
      step.meshByName[mesh.getSymNameAttr()] = mesh;
    } else if (auto param = dyn_cast<ParamOp>(op)) {
      step.params.push_back(param);
      step.paramByName[param.getSymNameAttr()] = param;
    } else if (auto group = dyn_cast<GroupOp>(op)) {
      step.groupByName[group.getSymNameAttr()] = step.groups.size();
      step.groups.push_back(group);
    }
  }
  for (MeshOp mesh : step.meshes)
    if (MeshOp first = step.meshes.front(); countRanks(mesh) != countRanks(first)) {
      InFlightDiagnostic diag = mesh.emitError("M1: mesh @")
                                << mesh.getSymName() << " has " << countRanks(mesh)
                                << " ranks, but @" << first.getSymName() << ' '
                                << countRanks(first);
      diag.attachNote(first.getLoc()) << "the first one is here";
      return failure();
    }
  if (!step.function || !step.function.getBody().hasOneBlock()) {
    module.emitError("M1: expected one function of one block, the step");
    return failure();
  }
  if (!step.meshes.empty() && failed(checkExportedRanks(step)))
    return failure();
  for (auto [index, group] : llvm::enumerate(step.groups))
    for (auto [position, name] :
         llvm::enumerate(group.getParams().getAsRange<FlatSymbolRefAttr>())) {
      GroupMember member{static_cast<unsigned>(index), static_cast<unsigned>(position)};
      auto [it, isNew] = step.memberByParam.try_emplace(name.getAttr(), member);
      if (isNew)
        continue;
      GroupOp other = step.groups[it->second.group];
      InFlightDiagnostic diag = group.emitError("M2: parameter ")
                                << name << " is already in group @" << other.getSymName();
      diag.attachNote(other.getLoc()) << "first grouped here";
      return failure();
    }
  return step;
}

int64_t Step::getWorldSize() { return meshes.empty() ? 1 : countRanks(meshes.front()); }

bool Step::isSharded() {
  return llvm::any_of(groups, [&](GroupOp group) { return getShards(group) > 1; });
}

LossScaleOp Step::getLossScale() {
  if (!optimizer || !optimizer.getLossScale())
    return {};
  auto scales = getBody().getOps<LossScaleOp>();
  return scales.empty() ? LossScaleOp() : *scales.begin();
}

NormAxes Step::getNormAxes() {
  if (groups.empty())
    return {meshes.empty() ? MeshOp() : meshes.front(), {}, 1};
  GroupOp first = groups.front();
  const int64_t shards = getShards(first);
  if (llvm::all_of(groups, [&](GroupOp group) { return getShards(group) == shards; }))
    return {getMesh(first), {first.getAxisAttr()}, shards};
  MeshOp mesh = meshes.front();
  return {mesh, llvm::to_vector<2>(mesh.getAxes()), getWorldSize()};
}

/// The tensors in collectives are the norm of gradients and the amax of parameters.
MeshOp Step::getMesh(CollectiveOpInterface start) {
  FlatSymbolRefAttr group = start.getCollectiveGroup();
  auto reduction = dyn_cast<AllReduceStartOp>(start.getOperation());
  if (auto part =
          reduction ? reduction.getSource().getDefiningOp<PartialAmaxOp>() : PartialAmaxOp();
      part && !part.getShards().empty())
    group = cast<ShardType>(part.getShards().front().getType()).getGroup();
  return group ? getMesh(groups[groupByName.lookup(group.getAttr())]) : getNormAxes().mesh;
}

AccumulationAttr Step::getAccumulation() {
  return module->getAttrOfType<AccumulationAttr>(FsdpDialect::getAccumulationAttrName());
}

int64_t Step::getMicrobatches() {
  AccumulationAttr accumulation = getAccumulation();
  return accumulation ? accumulation.getMicrobatches() : 1;
}

bool Step::isInterleaved() {
  AccumulationAttr accumulation = getAccumulation();
  return accumulation && !accumulation.getStages().empty();
}

SmallVector<ParamOp> Step::getParams(GroupOp group) {
  return llvm::map_to_vector(
      group.getParams().getAsRange<FlatSymbolRefAttr>(),
      [&](FlatSymbolRefAttr name) { return paramByName.lookup(name.getAttr()); });
}

SmallVector<ParamOp> Step::getTrained(GroupOp group) {
  return llvm::filter_to_vector(getParams(group), [](ParamOp param) { return !param.getFrozen(); });
}

Type Step::getDtype(GroupOp group) {
  SmallVector<ParamOp> params = getParams(group);
  return params.empty() ? Type()
                        : cast<RankedTensorType>(params.front().getType()).getElementType();
}

Value fsdp::skipHostCopies(Value value) {
  while (auto fetched = value.getDefiningOp<FetchWaitOp>())
    value = fetched.getStart().getSource();
  return value;
}

aten::ScopeAttr fsdp::getScopeOf(Value value) {
  Operation *op = skipHostCopies(value).getDefiningOp();
  if (auto call = dyn_cast_or_null<aten::CallOp>(op))
    return call.getScope();
  if (auto launch = dyn_cast_or_null<LaunchOp>(op))
    return launch.getScope();
  return {};
}

ReduceScatterStartOp fsdp::getReductionOf(Value shard) {
  Operation *source = shard.getDefiningOp();
  if (auto across = dyn_cast_or_null<AllReduceWaitOp>(source))
    source = across.getStart().getSource().getDefiningOp();
  if (auto wait = dyn_cast_or_null<ReduceScatterWaitOp>(source))
    return wait.getStart();
  return dyn_cast_or_null<ReduceScatterStartOp>(source);
}

//===----------------------------------------------------------------------===//
// Phases
//===----------------------------------------------------------------------===//

ModulePhase fsdp::getPhase(ModuleOp module) {
  auto phase = module->getAttrOfType<ModulePhaseAttr>(FsdpDialect::getPhaseAttrName());
  return phase ? phase.getValue() : ModulePhase::Captured;
}

Target fsdp::getTarget(ModuleOp module) {
  auto target = module->getAttrOfType<TargetAttr>(FsdpDialect::getTargetAttrName());
  return target ? target.getValue() : Target::Cpu;
}

void fsdp::setPhase(ModuleOp module, ModulePhase phase) {
  module->setAttr(FsdpDialect::getPhaseAttrName(),
                  ModulePhaseAttr::get(module.getContext(), phase));
}

LogicalResult fsdp::expectPhase(ModuleOp module, StringRef pass, ArrayRef<ModulePhase> phases) {
  if (llvm::is_contained(phases, getPhase(module)))
    return success();
  InFlightDiagnostic diag = module.emitError(pass)
                            << " takes a module of phase "
                            << llvm::join(llvm::map_range(phases, stringifyModulePhase), " or ")
                            << ", got " << stringifyModulePhase(getPhase(module));
  return diag;
}
