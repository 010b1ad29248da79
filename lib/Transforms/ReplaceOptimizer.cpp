//===- ReplaceOptimizer.cpp - The optimizer of the file -------------------===//

#include "fsdp/Transforms/ReplaceOptimizer.h"

#include "fsdp/Config/ModulePattern.h"
#include "fsdp/IR/OptimizerOptions.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace fsdp;

namespace {
class Replacement {
public:
  Replacement(Step &step, const ShardingConfig &config)
      : step(step), config(config), chosen(*config.optimizer) {}
  llvm::Error run();

private:
  llvm::Error fail(ConfigPlace place, const Twine &message) {
    return llvm::make_error<ConfigError>(config.file, place, message.str());
  }
  llvm::Error check(OptimizerKind kind);
  llvm::Error replaceStateDtype(OptimizerOp replaced, OptimizerOp old);
  OptimizerOp replace(OptimizerOp old, OptimizerKind kind);
  llvm::Error replaceGroups(OptimizerOp optimizer);
  llvm::Expected<SmallVector<Attribute>> takeParams(const OptimizerRule &rule,
                                                    DenseSet<Operation *> &taken);

  Step &step;
  const ShardingConfig &config;
  const OptimizerOverrides &chosen;
};
} // namespace

llvm::Error Replacement::check(OptimizerKind kind) {
  auto checkOptions = [&](const OptimizerOptions &options, ConfigPlace place) -> llvm::Error {
    if (std::optional<StringRef> name = findForeignOption(kind, options))
      return fail(place, stringifyOptimizerKind(kind) + " has no " + *name);
    return llvm::Error::success();
  };
  if (llvm::Error error = checkOptions(chosen.options, chosen.place))
    return error;
  for (const OptimizerRule &rule : chosen.groups.value_or(std::vector<OptimizerRule>()))
    if (llvm::Error error = checkOptions(rule.options, rule.place))
      return error;
  return llvm::Error::success();
}

/// The optimizer with torch's defaults if it is of another kind than the captured one.
OptimizerOp Replacement::replace(OptimizerOp old, OptimizerKind kind) {
  OpBuilder builder(old);
  OptimizerOptions options = chosen.options;
  if (kind == old.getKind())
    options.merge(readOptions(old));
  FloatAttr clipGradNorm = old.getClipGradNormAttr();
  if (chosen.clipGradNorm)
    clipGradNorm = builder.getF64FloatAttr(*chosen.clipGradNorm);
  OptimizerOp replaced = createOptimizer(builder, old.getLoc(), kind, options, clipGradNorm,
                                         chosen.clipNormType.value_or(old.getClipNormType()));
  writeLossScaling(replaced, chosen.lossScaling ? chosen.lossScaling : readLossScaling(old));
  return replaced;
}

/// Keeps the dtypes of remaining states for which the file has none.
llvm::Error Replacement::replaceStateDtype(OptimizerOp replaced, OptimizerOp old) {
  SmallVector<StringRef, 3> states = getStateNames(replaced);
  if (chosen.stateDtype) {
    llvm::Expected<DictionaryAttr> dtype =
        makeStateDtype(*chosen.stateDtype, replaced.getKind(), states, step.module);
    if (!dtype)
      return fail(chosen.place, "state_dtype: " + llvm::toString(dtype.takeError()));
    replaced.setStateDtypeAttr(*dtype);
  } else if (DictionaryAttr dtype = old.getStateDtypeAttr()) {
    NamedAttrList kept(dtype);
    for (NamedAttribute state : dtype)
      if (!llvm::is_contained(states, state.getName()))
        kept.erase(state.getName());
    if (!kept.empty())
      replaced.setStateDtypeAttr(kept.getDictionary(step.module.getContext()));
  }
  return llvm::Error::success();
}

llvm::Expected<SmallVector<Attribute>> Replacement::takeParams(const OptimizerRule &rule,
                                                               DenseSet<Operation *> &taken) {
  SmallVector<ModulePattern> patterns;
  for (const std::string &text : rule.parameters) {
    llvm::Expected<ModulePattern> pattern = ModulePattern::create(text);
    if (!pattern)
      return fail(rule.place, llvm::toString(pattern.takeError()));
    patterns.push_back(std::move(*pattern));
  }
  SmallVector<bool> hasMatched(patterns.size(), false);
  SmallVector<Attribute> members;
  for (ParamOp param : step.params) {
    SmallVector<StringRef> names = param.getNames();
    bool isNamed = patterns.empty();
    for (auto [pattern, matched] : llvm::zip_equal(patterns, hasMatched))
      if (llvm::any_of(names, [&](StringRef name) { return pattern.match(name); }))
        isNamed = matched = true;
    int64_t dims = cast<RankedTensorType>(param.getType()).getRank();
    if (!isNamed || dims > rule.maxDims.value_or(dims) || !taken.insert(param).second)
      continue;
    members.push_back(FlatSymbolRefAttr::get(param.getSymNameAttr()));
  }
  for (auto [text, matched] : llvm::zip_equal(rule.parameters, hasMatched))
    if (!matched)
      return fail(rule.place, "pattern '" + text + "' matches no parameter of the model");
  return members;
}

llvm::Error Replacement::replaceGroups(OptimizerOp optimizer) {
  OpBuilder builder(optimizer->getContext());
  builder.setInsertionPointAfter(optimizer);
  DenseSet<Operation *> taken;
  for (const OptimizerRule &rule : *chosen.groups) {
    llvm::Expected<SmallVector<Attribute>> members = takeParams(rule, taken);
    if (!members)
      return members.takeError();
    if (members->empty())
      return fail(rule.place,
                  "the entry takes no parameter: the parameters that it names belong to "
                  "earlier entries, or have more than max_dims dimensions");
    createOptimizerGroup(builder, optimizer.getLoc(), *members, rule.options);
  }
  return llvm::Error::success();
}

llvm::Error Replacement::run() {
  if (!step.optimizer)
    return fail(chosen.place, "the model's step has no optimizer whose values could be replaced");
  OptimizerOp old = step.optimizer;
  OptimizerKind kind = chosen.kind.value_or(old.getKind());
  if (llvm::Error error = check(kind))
    return error;
  if (chosen.clipNormType && !chosen.clipGradNorm && !old.getClipGradNorm())
    return fail(chosen.place, "clip_norm_type is " + stringifyNormType(*chosen.clipNormType) +
                                  ", but there is no clip_grad_norm, here or in the captured step");
  if (chosen.lossScaling && !old.getLossScale())
    return fail(chosen.place, "the file has a loss_scale, but the step was captured without one: "
                              "capture it with --loss-scale");
  OptimizerOp replaced = replace(old, kind);
  if (llvm::Error error = replaceStateDtype(replaced, old))
    return error;
  if (std::optional<std::string> problem = checkNesterov(readOptions(replaced)))
    return fail(chosen.place, *problem);
  if (std::optional<std::string> problem =
          checkClipping(readOptions(replaced), replaced.getClipGradNorm().has_value()))
    return fail(chosen.place,
                "the optimizer " + *problem + "; what the file leaves out stays as captured");
  if (chosen.groups || kind != old.getKind())
    for (auto group : llvm::make_early_inc_range(step.module.getOps<OptimizerGroupOp>()))
      group.erase();
  old.erase();
  step.optimizer = replaced;
  return chosen.groups ? replaceGroups(replaced) : llvm::Error::success();
}

llvm::Error fsdp::replaceOptimizer(Step &step, const ShardingConfig &config) {
  return config.optimizer ? Replacement(step, config).run() : llvm::Error::success();
}
