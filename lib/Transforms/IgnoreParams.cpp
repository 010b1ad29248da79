//===- IgnoreParams.cpp - Parameters that belong to no group --------------===//

#include "fsdp/Transforms/IgnoreParams.h"

#include "fsdp/Config/ModulePattern.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace fsdp;

/// Removes the parameter from the optimizer's groups. A group without other parameters is deleted.
static void leaveOptimizerGroups(ParamOp param) {
  auto name = FlatSymbolRefAttr::get(param.getSymNameAttr());
  for (auto group :
       llvm::make_early_inc_range(param->getParentOfType<ModuleOp>().getOps<OptimizerGroupOp>())) {
    SmallVector<Attribute> kept(group.getParams().getValue());
    llvm::erase(kept, name);
    if (kept.empty())
      group.erase();
    else
      group.setParamsAttr(ArrayAttr::get(param.getContext(), kept));
  }
}

static llvm::Error ignore(ParamOp param, const ShardingConfig &config, ConfigPlace place) {
  auto fail = [&](const Twine &problem) -> llvm::Error {
    return llvm::make_error<ConfigError>(
        config.file, place, ("ignored parameter '" + param.getSymName() + "' " + problem).str());
  };
  if (!param.getFrozen())
    return fail(
        "is trained: each rank would update its copy with the gradient of its own batch, which "
        "FSDP2 leaves to be reduced by hand; freeze it (requires_grad_(False)), or do not "
        "ignore it");
  leaveOptimizerGroups(param);
  OpBuilder builder(param);
  BufferOp::create(builder, param.getLoc(), param.getSymNameAttr(), param.getTypeAttr(),
                   param.getAliasesAttr(), /*init=*/nullptr, /*offset=*/nullptr);
  param.erase();
  return llvm::Error::success();
}

llvm::Error fsdp::ignoreParams(Step &step, const ShardingConfig &config) {
  if (config.ignoredParams.empty())
    return llvm::Error::success();
  std::vector<ParamOp> params(step.params.begin(), step.params.end());
  std::vector<std::string> ignored;
  for (const PlacedName &name : config.ignoredParams) {
    auto fail = [&](const std::string &problem) -> llvm::Error {
      return llvm::make_error<ConfigError>(config.file, name.place, problem);
    };
    llvm::Expected<ModulePattern> pattern = ModulePattern::create(name.text);
    if (!pattern)
      return fail(llvm::toString(pattern.takeError()));
    bool hasMatched = false;
    for (ParamOp &param : params) {
      auto matches = [&](StringRef each) { return pattern->match(each); };
      if (!param || llvm::none_of(param.getNames(), matches))
        continue;
      hasMatched = true;
      llvm::append_range(ignored, param.getNames());
      if (llvm::Error error = ignore(param, config, name.place))
        return error;
      param = {};
    }
    if (hasMatched)
      continue;
    bool isRepeated =
        llvm::any_of(ignored, [&](const std::string &other) { return pattern->match(other); });
    return fail("pattern '" + name.text + "' of ignored_params matches " +
                (isRepeated ? "only parameters that patterns before it match, too"
                            : "no parameter of the model"));
  }
  FailureOr<Step> collected = Step::collect(step.module);
  if (failed(collected))
    return llvm::make_error<ConfigError>(config.file, config.ignoredParams.front().place,
                                         "the step without its ignored parameters is not valid");
  step = std::move(*collected);
  return llvm::Error::success();
}
