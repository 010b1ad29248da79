//===- IgnoreParams.cpp - Parameters that belong to no group --------------===//

#include "fsdp/Transforms/IgnoreParams.h"

#include "fsdp/Config/ModulePattern.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace fsdp;

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
  if (param.getAliases())
    return fail("is shared by several modules; only one name can be kept. Do not ignore it");
  OpBuilder builder(param);
  BufferOp::create(builder, param.getLoc(), param.getSymNameAttr(), param.getTypeAttr(),
                   /*offset=*/nullptr);
  param.erase();
  return llvm::Error::success();
}

llvm::Error fsdp::ignoreParams(Step &step, const ShardingConfig &config) {
  if (config.ignoredParams.empty())
    return llvm::Error::success();
  std::vector<ParamOp> params(step.params.begin(), step.params.end());
  for (const PlacedName &name : config.ignoredParams) {
    llvm::Expected<ModulePattern> pattern = ModulePattern::create(name.text);
    if (!pattern)
      return llvm::make_error<ConfigError>(config.file, name.place,
                                           llvm::toString(pattern.takeError()));
    bool hasMatched = false;
    for (ParamOp &param : params) {
      if (!param || !pattern->match(param.getSymName()))
        continue;
      hasMatched = true;
      if (llvm::Error error = ignore(param, config, name.place))
        return error;
      param = {};
    }
    if (!hasMatched)
      return llvm::make_error<ConfigError>(
          config.file, name.place,
          "pattern '" + name.text +
              "' of ignored_params matches no parameter of the model, or none "
              "that an earlier one has not");
  }
  FailureOr<Step> collected = Step::collect(step.module);
  assert(succeeded(collected) && "the step was collected before");
  step = std::move(*collected);
  return llvm::Error::success();
}
