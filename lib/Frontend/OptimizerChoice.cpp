//===- OptimizerChoice.cpp - The user's optimizer and the file's ----------===//

#include "OptimizerChoice.h"

#include "Recorder.h"
#include "fsdp/IR/Limits.h"
#include "fsdp/IR/OptimizerOptions.h"

#include <nlohmann/json.hpp>

using namespace fsdp;
using namespace fsdp::frontend;
using nlohmann::json;

static void read(const json &text, const char *name, std::optional<double> &value) {
  if (auto found = text.find(name); found != text.end())
    value = found->get<double>();
}

template <typename Spec> static void readShared(const json &text, Spec &spec) {
  read(text, "lr", spec.lr);
  read(text, "weight_decay", spec.weightDecay);
  read(text, "eps", spec.eps);
  if (auto betas = text.find("betas"); betas != text.end()) {
    spec.beta1 = betas->at(0).template get<double>();
    spec.beta2 = betas->at(1).template get<double>();
  }
}

OptimizerSpec fsdp::frontend::parseOptimizer(const json &text) {
  OptimizerSpec spec;
  auto name = text.at("name").get<std::string>();
  spec.kind = symbolizeOptimizerKind(name);
  if (!spec.kind)
    throw CaptureError("the file's optimizer is '" + name + "', expected sgd, adam or adamw");
  readShared(text, spec);
  read(text, "momentum", spec.momentum);
  read(text, "dampening", spec.dampening);
  spec.nesterov = text.value("nesterov", false);
  spec.amsgrad = text.value("amsgrad", false);
  spec.maximize = text.value("maximize", false);
  for (const json &group : text.value("groups", json::array())) {
    OptimizerGroupSpec &own = spec.groups.emplace_back();
    own.parameters = group.at("parameters").get<std::vector<std::string>>();
    readShared(group, own);
  }
  return spec;
}

void fsdp::frontend::checkOptimizer(const OptimizerSpec &spec) {
  if (!spec.kind)
    return;
  std::string kind = stringifyOptimizerKind(*spec.kind).str();
  if (std::optional<llvm::StringRef> name =
          findForeignOption(*spec.kind, {{"momentum", spec.momentum.has_value()},
                                         {"dampening", spec.dampening.has_value()},
                                         {"nesterov", spec.nesterov},
                                         {"betas", spec.beta1 || spec.beta2},
                                         {"eps", spec.eps.has_value()},
                                         {"amsgrad", spec.amsgrad}}))
    throw CaptureError("optimizer '" + kind + "' has no " + name->str());
  auto check = [&](const char *name, std::optional<double> value,
                   std::optional<std::string> (*checkOne)(double) = checkHyperParameter) {
    if (value)
      if (std::optional<std::string> problem = checkOne(*value))
        throw CaptureError("optimizer '" + kind + "': " + name + " " + *problem);
  };
  auto checkShared = [&](const auto &values) {
    check("lr", values.lr);
    check("weight-decay", values.weightDecay);
    check("eps", values.eps);
    check("the first of betas", values.beta1, checkBeta);
    check("the second of betas", values.beta2, checkBeta);
  };
  checkShared(spec);
  check("momentum", spec.momentum);
  check("dampening", spec.dampening);
  check("clip-grad-norm", spec.clipGradNorm, checkClipGradNorm);
  for (const OptimizerGroupSpec &group : spec.groups)
    checkShared(group);
}

OptimizerSpec fsdp::frontend::chooseOptimizer(const OptimizerSpec &asked,
                                              const std::optional<OptimizerSpec> &ofFile) {
  OptimizerSpec chosen = asked;
  if (ofFile && asked.kind.value_or(*ofFile->kind) == *ofFile->kind) {
    chosen.kind = ofFile->kind;
    auto otherwise = [](std::optional<double> &value, const std::optional<double> &stored) {
      if (!value)
        value = stored;
    };
    otherwise(chosen.lr, ofFile->lr);
    otherwise(chosen.weightDecay, ofFile->weightDecay);
    otherwise(chosen.momentum, ofFile->momentum);
    otherwise(chosen.dampening, ofFile->dampening);
    otherwise(chosen.beta1, ofFile->beta1);
    otherwise(chosen.beta2, ofFile->beta2);
    otherwise(chosen.eps, ofFile->eps);
    chosen.nesterov |= ofFile->nesterov;
    chosen.amsgrad |= ofFile->amsgrad;
    chosen.maximize |= ofFile->maximize;
    chosen.groups = ofFile->groups;
  }
  if (!chosen.kind)
    chosen.kind = OptimizerKind::AdamW;
  checkOptimizer(chosen);
  if (auto problem =
          checkNesterov(chosen.nesterov, chosen.momentum.value_or(0), chosen.dampening.value_or(0)))
    throw CaptureError("optimizer '" + stringifyOptimizerKind(*chosen.kind).str() +
                       "': " + *problem);
  return chosen;
}
