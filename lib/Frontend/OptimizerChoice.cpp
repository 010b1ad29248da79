//===- OptimizerChoice.cpp - The user's optimizer and the file's ----------===//

#include "OptimizerChoice.h"

#include "Recorder.h"
#include "fsdp/IR/Limits.h"
#include "fsdp/IR/OptimizerOptions.h"

#include <nlohmann/json.hpp>

using namespace fsdp;
using namespace fsdp::frontend;
using nlohmann::json;

/// The options among the fields of an optimizer or of a group of it.
static OptimizerOptions parseOptions(const json &text) {
  OptimizerOptions options;
  for (const plan::OptimizerOption &option : plan::kOptimizerOptions) {
    auto found = text.find(option.name);
    if (found == text.end())
      continue;
    llvm::SmallVector<double, 2> &values = options[std::string(option.name)];
    if (found->is_array())
      for (const json &number : *found)
        values.push_back(number.get<double>());
    else
      values.push_back(option.isFlag() ? found->get<bool>() : found->get<double>());
  }
  return options;
}

OptimizerSpec fsdp::frontend::parseOptimizer(const json &text) {
  OptimizerSpec spec;
  auto name = text.at("name").get<std::string>();
  spec.kind = symbolizeOptimizerKind(name);
  if (!spec.kind)
    throw CaptureError("the file's optimizer is '" + name + "', expected " +
                       plan::listOptimizers());
  spec.options = parseOptions(text);
  for (const json &group : text.value("groups", json::array()))
    spec.groups.push_back(
        {group.at("parameters").get<std::vector<std::string>>(), parseOptions(group)});
  return spec;
}

LossScaling fsdp::frontend::parseLossScaling(const json &text) {
  return {.init = text.at("init").get<double>(),
          .growthFactor = text.at("growth_factor").get<double>(),
          .backoffFactor = text.at("backoff_factor").get<double>(),
          .growthInterval = text.at("growth_interval").get<int64_t>()};
}

static void checkScaling(const std::optional<LossScaling> &scaling) {
  if (!scaling)
    return;
  if (std::optional<WrongOption> wrong = findWrongScaling(*scaling))
    throw CaptureError("loss scale: " + wrong->name.str() + " " + wrong->problem);
}

void fsdp::frontend::checkOptimizer(const OptimizerSpec &spec) {
  checkScaling(spec.lossScaling);
  if (!spec.kind)
    return;
  std::string kind = stringifyOptimizerKind(*spec.kind).str();
  auto check = [&](const OptimizerOptions &options) {
    if (std::optional<llvm::StringRef> name = findForeignOption(*spec.kind, options))
      throw CaptureError("optimizer '" + kind + "' has no " + name->str());
    if (std::optional<WrongOption> wrong = findWrongOption(options))
      throw CaptureError("optimizer '" + kind + "': " + wrong->name.str() + " " + wrong->problem);
  };
  check(spec.options);
  if (spec.clipGradNorm)
    if (std::optional<std::string> problem = checkClipLimit(*spec.clipGradNorm))
      throw CaptureError("optimizer '" + kind + "': clip-grad-norm " + *problem);
  if (std::optional<std::string> problem =
          checkClipping(spec.options, spec.clipGradNorm.has_value()))
    throw CaptureError("optimizer '" + kind + "' " + *problem);
  for (const OptimizerGroupSpec &group : spec.groups)
    check(group.options);
}

OptimizerSpec fsdp::frontend::chooseOptimizer(const OptimizerSpec &asked,
                                              const std::optional<OptimizerSpec> &ofFile,
                                              const std::optional<LossScaling> &scalingOfFile) {
  OptimizerSpec chosen = asked;
  if (!chosen.lossScaling)
    chosen.lossScaling = scalingOfFile;
  if (ofFile && asked.kind.value_or(*ofFile->kind) == *ofFile->kind) {
    chosen.kind = ofFile->kind;
    chosen.options.insert(ofFile->options.begin(), ofFile->options.end());
    chosen.groups = ofFile->groups;
  }
  if (!chosen.kind)
    chosen.kind = OptimizerKind::AdamW;
  checkOptimizer(chosen);
  if (auto problem = checkNesterov(chosen.options))
    throw CaptureError("optimizer '" + stringifyOptimizerKind(*chosen.kind).str() +
                       "': " + *problem);
  return chosen;
}
