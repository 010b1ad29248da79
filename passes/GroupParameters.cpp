//===- GroupParameters.cpp - Declare the mesh and the groups --------------===//

#include "fsdp/Analysis/Stages.h"
#include "fsdp/Config/Grouping.h"
#include "fsdp/Config/ModulePattern.h"
#include "fsdp/Config/ModuleTree.h"
#include "fsdp/Transforms/ExportedPolicies.h"
#include "fsdp/Transforms/Float8Gathers.h"
#include "fsdp/Transforms/IgnoreParams.h"
#include "fsdp/Transforms/PrefetchLists.h"
#include "fsdp/Transforms/RecomputeRegions.h"
#include "fsdp/Transforms/ReplaceOptimizer.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Remarks.h"
#include "passes/Passes.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

namespace fsdp {
#define GEN_PASS_DEF_GROUPPARAMETERS
#include "passes/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {
struct GroupParametersPass : public fsdp::impl::GroupParametersBase<GroupParametersPass> {
  using GroupParametersBase::GroupParametersBase;
  void runOnOperation() override;

private:
  llvm::Expected<ShardingConfig> readConfig();
  llvm::Error declareGroups(Step &step, const ShardingConfig &choices,
                            std::vector<ParamGroup> &declared);
  LogicalResult declareMicrobatches(Step &step, const ShardingConfig &choices);
  void emitError(llvm::Error error);
};
} // namespace

/// Lets a command-line option override the file's.
template <typename T>
static llvm::Error takeOption(StringRef text, llvm::Expected<T> (*parse)(StringRef),
                              std::optional<T> &value) {
  if (text.empty())
    return llvm::Error::success();
  llvm::Expected<T> parsed = parse(text);
  if (!parsed)
    return parsed.takeError();
  value = *parsed;
  return llvm::Error::success();
}

llvm::Expected<ShardingConfig> GroupParametersPass::readConfig() {
  ShardingConfig choices;
  if (!config.empty()) {
    llvm::Expected<ShardingConfig> read = readShardingConfig(config);
    if (!read)
      return read.takeError();
    choices = std::move(*read);
  }
  if (llvm::Error error = takeOption<MeshSpec>(mesh, parseMesh, choices.mesh))
    return error;
  if (llvm::Error error =
          takeOption<ReshardChoice>(reshardAfterForward, parseReshard, choices.reshardAfterForward))
    return error;
  if (!choices.reshardAfterForward)
    if (llvm::Error error =
            takeOption<ReshardChoice>(reshardDefault, parseReshard, choices.reshardAfterForward))
      return error;
  if (llvm::Error error = takeOption<bool>(splitRoot, parseSplitRoot, choices.splitRoot))
    return error;
  if (!choices.splitRoot)
    choices.splitRoot = splitDefault;
  if (llvm::Error error =
          takeOption<SplitBlocks>(splitBlocks, parseSplitBlocks, choices.splitBlocks))
    return error;
  if (!choices.splitBlocks && splitDefault)
    choices.splitBlocks = kSplitBlocks;
  if (llvm::Error error = takeOption<Layout>(layout, parseLayout, choices.layout))
    return error;
  std::optional<ShardDim> placement;
  if (llvm::Error error = takeOption<ShardDim>(shardPlacement, parseShardDim, placement))
    return error;
  if (placement)
    choices.shardPlacement = ShardPlacement{.all = placement, .rules = {}};
  if (llvm::Error error =
          takeOption<ParameterHome>(offloadPolicy, parseOffloadPolicy, choices.offloadPolicy))
    return error;
  if (llvm::Error error = takeOption<Prefetch>(prefetch, parsePrefetch, choices.prefetch))
    return error;
  Accumulation &accumulation = choices.accumulation;
  if (microbatches != 0)
    accumulation.microbatches = microbatches;
  if (llvm::Error error =
          takeOption<LossReduction>(microbatchLoss, parseLossReduction, accumulation.loss))
    return error;
  if (llvm::Error error =
          takeOption<MicrobatchOrder>(microbatchOrder, parseMicrobatchOrder, accumulation.order))
    return error;
  if (!stages.empty()) {
    SmallVector<StringRef> names;
    StringRef(stages).split(names, ',');
    accumulation.stages.emplace(names.begin(), names.end());
  }
  if (llvm::Error error =
          takeOption<GradientSync>(gradientSync, parseGradientSync, accumulation.gradientSync))
    return error;
  if (llvm::Error error = takeOption<bool>(reshardAfterBackward, parseReshardAfterBackward,
                                           accumulation.reshardAfterBackward))
    return error;
  if (microbatches != 0 || !stages.empty() || !microbatchLoss.empty() || !microbatchOrder.empty() ||
      !gradientSync.empty() || !reshardAfterBackward.empty())
    accumulation.place = {};
  if (llvm::Error error = checkAccumulation(choices))
    return error;
  MixedPrecision &policy = choices.mixedPrecision;
  if (llvm::Error error = takeOption<PolicyDtype>(paramDtype, parsePolicyDtype, policy.paramDtype))
    return error;
  if (llvm::Error error =
          takeOption<PolicyDtype>(reduceDtype, parsePolicyDtype, policy.reduceDtype))
    return error;
  return choices;
}

static Type getType(std::optional<PolicyDtype> dtype, MLIRContext *context) {
  if (!dtype)
    return {};
  switch (*dtype) {
  case PolicyDtype::Float32:
    return Float32Type::get(context);
  case PolicyDtype::BFloat16:
    return BFloat16Type::get(context);
  case PolicyDtype::Float16:
    return Float16Type::get(context);
  }
  llvm_unreachable("all dtypes are listed");
}

/// The dtypes in which a group is to be gathered and reduced: the user's for this group or for all
/// groups, else those with which its modules were exported. Null: no request.
static llvm::Expected<MixedPrecisionAttr> getPolicy(ExportedPolicies &exported,
                                                    MLIRContext *context,
                                                    const ShardingConfig &choices,
                                                    const ParamGroup &group) {
  auto make = [&](Type paramDtype, Type reduceDtype) {
    return paramDtype || reduceDtype ? MixedPrecisionAttr::get(context, paramDtype, reduceDtype)
                                     : MixedPrecisionAttr();
  };
  const MixedPrecision policy = group.options.mixedPrecision.value_or(choices.mixedPrecision);
  if (group.options.mixedPrecision || policy.paramDtype || policy.reduceDtype)
    return make(getType(policy.paramDtype, context), getType(policy.reduceDtype, context));
  if (llvm::Error error = exported.check(group))
    return error;
  MixedPrecisionOp found = exported.find(group.modules);
  if (!found)
    return MixedPrecisionAttr();
  return make(found.getParamDtype().value_or(FloatType()),
              found.getReduceDtype().value_or(FloatType()));
}

/// Null: no request. The file's reader has checked the sizes.
static AllGatherExtensionAttr getExtension(MLIRContext *context,
                                           const std::optional<AllGatherExtension> &asked) {
  if (!asked || asked->name.empty())
    return {};
  return AllGatherExtensionAttr::get(context, StringAttr::get(context, asked->name),
                                     asked->bytesPerElement, asked->bytesPerPart);
}

/// `name`, with a number appended if the module has that symbol already.
static std::string getFreeSymbol(SymbolTable &symbols, StringRef name) {
  std::string symbol = name.str();
  for (unsigned number = 0; symbols.lookup(symbol); ++number)
    symbol = (name + "_" + Twine(number)).str();
  return symbol;
}

/// For each parameter, the modules whose calls use it, a view or a cast of it. Casts are no uses:
/// those of policies come before the modules run (fsdp-mixed-precision gathers their results).
static llvm::StringMap<llvm::SetVector<StringRef>> findUsers(Step &step) {
  llvm::StringMap<llvm::SetVector<StringRef>> users;
  DenseMap<Value, StringRef> paramOf; // keys: reads of parameters and views of these
  for (Operation &op : step.getBody()) {
    if (auto read = dyn_cast<ReadOp>(op)) {
      if (step.paramByName.contains(read.getSourceAttr().getAttr()))
        paramOf[read.getResult()] = read.getSource();
      continue;
    }
    auto call = dyn_cast<aten::CallOp>(op);
    if (!call)
      continue;
    for (OpOperand &operand : call->getOpOperands()) {
      auto found = paramOf.find(operand.get());
      if (found == paramOf.end())
        continue;
      StringRef param = found->second;
      const bool isCast = call.getBaseName() == "_to_copy";
      if (!isCast)
        users[param].insert(call.getModule());
      if (isCast || (call.isView() && operand.getOperandNumber() == 0))
        for (Value result : call.getResults())
          paramOf[result] = param;
    }
  }
  return users;
}

/// True for frozen parameters that are gathered in their own dtype anyway: they are not reduced.
static bool asksNothing(MixedPrecisionAttr policy, ParamOp param) {
  Type element = cast<RankedTensorType>(param.getType()).getElementType();
  return policy && param.getFrozen() && !element.isF32() &&
         (!policy.getParamDtype() || policy.getParamDtype() == element);
}

static bool isPartOfBlock(const ParamGroup &group) { return group.partOf && *group.partOf != ""; }

llvm::Error GroupParametersPass::declareGroups(Step &step, const ShardingConfig &choices,
                                               std::vector<ParamGroup> &declared) {
  std::vector<NamedParam> params;
  const llvm::StringMap<llvm::SetVector<StringRef>> users = findUsers(step);
  ExportedPolicies exported(step);
  const Float8CastsByParam casts = findAskedCasts(step, choices);
  for (ParamOp param : step.params) {
    NamedParam &named = params.emplace_back();
    named.float8 = getGatherDtype(casts, param);
    for (StringRef name : param.getNames())
      named.names.push_back(name.str());
    named.isFrozen = param.getFrozen();
    for (StringRef user : users.lookup(param.getSymName()))
      named.users.push_back(user.str());
    auto type = cast<RankedTensorType>(param.getType());
    named.shape = type.getShape().vec();
    llvm::raw_string_ostream(named.dtype)
        << type.getElementType() << (exported.follows(param) ? "" : ", gathered as it is");
  }
  llvm::SmallSetVector<StringAttr, 32> paths;
  for (auto call : step.getBody().getOps<aten::CallOp>())
    paths.insert(call.getModuleAttr());
  std::vector<std::string> modules;
  for (StringAttr path : paths)
    modules.push_back(path.str());

  llvm::Expected<std::vector<ParamGroup>> groups = groupParams(params, modules, choices);
  if (!groups)
    return groups.takeError();
  if (llvm::Error error = checkFloat8Requests(step, choices, *groups, casts))
    return error;
  if (!groups->empty() && !groups->back().blocksInRoot.empty())
    step.module.emitRemark("blocks that are no groups, but stay in the root: '")
        << llvm::join(groups->back().blocksInRoot, "', '")
        << "'; operations outside of them use their parameters, or modules outside hold them";
  if (const size_t numParts = llvm::count_if(*groups, isPartOfBlock))
    step.module.emitRemark("large groups are divided (split_blocks): ")
        << numParts << " of the " << groups->size() << " groups are parts of others";
  OpBuilder builder(step.function);
  Location loc = step.module.getLoc();
  SymbolTable symbols(step.module);
  const MeshSpec spec = choices.mesh.value_or(MeshSpec());
  SmallVector<std::pair<MeshSpec, MeshOp>, 1> meshes;
  auto declareMesh = [&](const MeshSpec &mesh) {
    for (auto &[known, op] : meshes)
      if (known.axes == mesh.axes)
        return op;
    SmallVector<StringRef, 2> names;
    SmallVector<int64_t, 2> sizes;
    for (const MeshSpec::Axis &axis : mesh.axes) {
      names.push_back(axis.name);
      sizes.push_back(axis.size);
    }
    auto op = MeshOp::create(builder, loc, getFreeSymbol(symbols, "mesh"),
                             builder.getStrArrayAttr(names), builder.getDenseI64ArrayAttr(sizes));
    symbols.insert(op, step.function->getIterator());
    meshes.push_back({mesh, op});
    return op;
  };
  declareMesh(spec); // the first mesh is the model's
  for (const ParamGroup &group : *groups)
    declareMesh(*group.options.mesh);
  MLIRContext *context = step.module.getContext();
  for (const ParamGroup &group : *groups) {
    bool isRoot = group.modules.front().empty();
    std::string name = isRoot ? "root" : llvm::join(group.modules, ", ");
    if (group.isFrozenPart)
      name += ".frozen";
    else if (group.isFloat8Part)
      name += ".float8";
    SmallVector<Attribute> members = llvm::map_to_vector(group.params, [&](unsigned index) {
      return Attribute(FlatSymbolRefAttr::get(step.params[index].getSymNameAttr()));
    });
    SmallVector<StringRef> held(group.modules.begin(), group.modules.end());
    const GroupOptions &asked = group.options;
    llvm::Expected<MixedPrecisionAttr> policy = MixedPrecisionAttr();
    if (exported.follows(step.params[group.params.front()]))
      policy = getPolicy(exported, context, choices, group);
    if (!policy)
      return policy.takeError();
    if (asksNothing(*policy, step.params[group.params.front()]))
      policy = MixedPrecisionAttr();
    MeshOp meshOp = declareMesh(*asked.mesh);
    ArrayAttr axes = meshOp.getAxes();
    ReshardChoice reshard = asked.reshardAfterForward.value_or(ReshardChoice());
    // Diagnostics of later passes about a group point at its entry in the file.
    Location place =
        group.place.line == 0
            ? loc
            : FileLineColLoc::get(context, choices.file, group.place.line, group.place.column);
    auto op = GroupOp::create(
        builder, place, getFreeSymbol(symbols, name), builder.getArrayAttr(members),
        builder.getStrArrayAttr(held),
        group.partOf ? builder.getStringAttr(*group.partOf) : StringAttr(), meshOp.getSymName(),
        cast<StringAttr>(axes.getValue().back()).getValue(),
        axes.size() > 1 ? cast<StringAttr>(axes[0]) : StringAttr(),
        choices.layout.value_or(Layout::Flat),
        group.shardDims.empty() ? DenseI64ArrayAttr()
                                : builder.getDenseI64ArrayAttr(group.shardDims),
        reshard.when, reshard.ranks ? builder.getI64IntegerAttr(*reshard.ranks) : IntegerAttr(),
        *policy,
        group.isFloat8 ? casts.find(step.params[group.params.front()].getSymNameAttr())->second.cast
                       : Float8CastAttr(),
        /*gather_dtype=*/nullptr, /*reduce_dtype=*/nullptr,
        asked.gradientDivideFactor ? builder.getF64FloatAttr(*asked.gradientDivideFactor)
                                   : FloatAttr(),
        asked.forceSumReduction.value_or(false), getExtension(context, asked.allGatherExtension),
        asked.allReduceHook.value_or("none") == "none"
            ? StringAttr()
            : builder.getStringAttr(*asked.allReduceHook),
        /*recompute=*/nullptr, /*recomputed=*/nullptr, /*gradient_sync=*/nullptr,
        /*reshard_after_backward=*/nullptr, /*forward_prefetch=*/nullptr,
        /*backward_prefetch=*/nullptr, asked.offloadPolicy == ParameterHome::Cpu,
        /*offload_optimizer=*/nullptr, /*optimizer_state=*/nullptr,
        /*offload_activations=*/nullptr, /*activations=*/nullptr,
        /*decisions=*/nullptr, /*places=*/nullptr);
    if (asked.recompute)
      op.setRecompute(*asked.recompute);
    if (asked.offloadOptimizer)
      op.setOffloadOptimizer(*asked.offloadOptimizer);
    if (asked.offloadActivations)
      op.setOffloadActivations(*asked.offloadActivations);
    if (asked.gradientSync)
      op.setGradientSync(*asked.gradientSync);
    if (asked.reshardAfterBackward)
      op.setReshardAfterBackward(*asked.reshardAfterBackward);
    symbols.insert(op, step.function->getIterator());
  }
  remark::analysis(loc, remark::RemarkOpts::name("groups").category(getArgument()))
      << remark::metric("Groups", groups->size()) << remark::metric("Ranks", spec.getRanks());
  declared = std::move(*groups);
  return llvm::Error::success();
}

/// Reports `error` at its line of the file, if it has one.
void GroupParametersPass::emitError(llvm::Error error) {
  llvm::handleAllErrors(
      std::move(error),
      [&](const ConfigError &problem) {
        mlir::emitError(FileLineColLoc::get(&getContext(), problem.file, problem.place.line,
                                            problem.place.column))
            << problem.message;
      },
      [&](const llvm::ErrorInfoBase &problem) { getOperation().emitError(problem.message()); });
}

/// The modules that begin stages: those that match a name or pattern, in the order of the forward.
static llvm::Expected<SmallVector<StringAttr>> findStages(Step &step,
                                                          const ShardingConfig &choices) {
  ModuleTree tree;
  for (auto call : step.getBody().getOps<aten::CallOp>())
    if (call.getPhase() == aten::Phase::Forward)
      tree.add(call.getModule());
  SmallVector<StringAttr> found;
  const Accumulation &asked = choices.accumulation;
  for (const std::string &text : *asked.stages) {
    llvm::Expected<ModulePattern> pattern = ModulePattern::create(text);
    if (!pattern)
      return failAt(choices, asked.place, llvm::toString(pattern.takeError()));
    size_t before = found.size();
    for (const Module &module : tree.getModules())
      if (!module.isRoot() && pattern->match(module.path))
        found.push_back(StringAttr::get(step.module.getContext(), module.path));
    if (found.size() == before)
      return failAt(choices, asked.place,
                    "no module that runs matches '" + text + "' of accumulation.stages");
  }
  return found;
}

/// Records the number of microbatches and their order. FSDP2 keeps the root of each stage gathered,
/// as it does with the root of a model.
LogicalResult GroupParametersPass::declareMicrobatches(Step &step, const ShardingConfig &choices) {
  const Accumulation &asked = choices.accumulation;
  int64_t count = asked.microbatches.value_or(1);
  // An evaluation has no gradients to accumulate.
  if (count == 1 || step.isEvaluation())
    return success();
  SmallVector<StringAttr> begins;
  if (asked.order == MicrobatchOrder::OneForwardOneBackward) {
    llvm::Expected<SmallVector<StringAttr>> found = findStages(step, choices);
    if (!found) {
      emitError(found.takeError());
      return failure();
    }
    begins = std::move(*found);
  }
  step.module->setAttr(FsdpDialect::getAccumulationAttrName(),
                       AccumulationAttr::get(&getContext(), count,
                                             asked.loss.value_or(LossReduction::Mean), begins));
  if (begins.empty())
    return success();
  FailureOr<Step> grouped = Step::collect(step.module);
  FailureOr<Stages> found = failed(grouped) ? FailureOr<Stages>() : Stages::find(*grouped);
  if (failed(found))
    return failure();
  for (GroupOp group : grouped->groups)
    if (group.getReshardAfterForward() == Reshard::None && found->isRootOfStage(*grouped, group))
      group.setReshardAfterForward(Reshard::Never);
  return success();
}

void GroupParametersPass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(expectPhase(module, getArgument(), ModulePhase::Captured)))
    return signalPassFailure();
  FailureOr<Step> step = Step::collect(module);
  if (failed(step))
    return signalPassFailure();
  if (!step->meshes.empty() || !step->groups.empty()) {
    InFlightDiagnostic diag = module.emitError("the module has a mesh or groups already");
    diag.attachNote(step->meshes.empty() ? step->groups.front().getLoc()
                                         : step->meshes.front().getLoc())
        << "declared here";
    return signalPassFailure();
  }
  llvm::Expected<ShardingConfig> choices = readConfig();
  std::vector<ParamGroup> groups;
  llvm::Error error = choices ? ignoreParams(*step, *choices) : choices.takeError();
  if (!error)
    error = declareGroups(*step, *choices, groups);
  if (!error)
    error = replaceOptimizer(*step, *choices);
  if (!error && !step->isEvaluation()) // an evaluation recomputes nothing
    error = declareRecomputeRegions(*step, *choices);
  if (error) {
    emitError(std::move(error));
    return signalPassFailure();
  }
  if (failed(setPrefetchLists(module, groups)))
    return signalPassFailure();
  if (failed(declareMicrobatches(*step, *choices)))
    return signalPassFailure();
  if (choices->prefetch)
    module->setAttr(FsdpDialect::getPrefetchAttrName(),
                    PrefetchAttr::get(&getContext(), *choices->prefetch));
  if (transport != Transport::Kernels)
    module->setAttr(FsdpDialect::getTransportAttrName(),
                    TransportAttr::get(&getContext(), transport));
}
