//===- Optimizers.h - Options and states of torch.optim's optimizers -*- C++ -*-===//
//
// One table of the optimizers that a step may have: their options with torch's names, ranges and
// defaults, and their states. Flags, the YAML file, modules, plans and checkpoints follow it.
// Another optimizer needs an entry here, its kind in Abi.h and FsdpBase.td, its formula in
// runtime/executor/TorchOptimizer.cpp, lib/Interpreter/Updates.cpp and, for GPUs,
// runtime/cuda/kernels/OptimizerFormulas.h, and its name in tools/python/fsdpc/optimizers.py. An
// option that no optimizer had before also needs a field of fsdp_optimizer and an attribute in
// FsdpDeclarations.td.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PLAN_OPTIMIZERS_H
#define FSDP_PLAN_OPTIMIZERS_H

#include "fsdp/Plan/Abi.h"

#include <array>
#include <cmath>
#include <span>
#include <string>
#include <string_view>

namespace fsdp::plan {

/// The values that torch accepts. All are finite.
enum class OptionRange {
  NotNegative,
  BelowOne,  // at least 0 and below 1
  UpToOne,   // at least 0 and at most 1
  AboveZero, // in fp32, too, where it must be finite
  Flag       // true or false
};

struct OptimizerOption {
  std::string_view name;
  OptionRange range;
  /// Parameter groups may have values of their own.
  bool isOfGroups;
  /// A module that does not state it means 0; of flags, false.
  bool isOptional;
  /// The fields of a plan for an option's numbers: one, or two of `betas`.
  std::array<double fsdp_optimizer::*, 2> fields;
  uint32_t flag; // the bit in fsdp_optimizer::options of a flag
  const char *help;

  bool isFlag() const { return range == OptionRange::Flag; }
  unsigned numValues() const { return fields[1] ? 2 : 1; }
  /// Values of a plan's optimizer.
  double valueOf(const fsdp_optimizer &optimizer, unsigned index = 0) const {
    return isFlag() ? (optimizer.options & flag) != 0 : optimizer.*fields[index];
  }
  void setValue(fsdp_optimizer &optimizer, double value, unsigned index = 0) const {
    if (!isFlag())
      optimizer.*fields[index] = value;
    else
      optimizer.options = value != 0 ? optimizer.options | flag : optimizer.options & ~flag;
  }
};

inline constexpr auto kOptimizerOptions = [] {
  using enum OptionRange;
  using O = fsdp_optimizer;
  return std::to_array<OptimizerOption>({
      {"lr", NotNegative, true, false, {&O::lr}, 0, "learning rate"},
      {"weight_decay", NotNegative, true, false, {&O::weight_decay}, 0, "weight decay"},
      {"momentum", NotNegative, false, false, {&O::momentum}, 0, "momentum"},
      {"dampening", NotNegative, false, true, {&O::dampening}, 0, "dampening of the momentum"},
      {"betas", BelowOne, true, false, {&O::beta1, &O::beta2}, 0, "A,B: betas"},
      {"alpha", NotNegative, true, false, {&O::alpha}, 0, "smoothing constant"},
      {"rho", UpToOne, true, false, {&O::rho}, 0, "decay of the averages of squares"},
      {"eps", NotNegative, true, false, {&O::eps}, 0, "term that keeps denominators above 0"},
      {"momentum_decay", NotNegative, true, false, {&O::momentum_decay}, 0, "momentum decay"},
      {"lr_decay", NotNegative, true, true, {&O::lr_decay}, 0, "learning rate decay"},
      {"initial_accumulator_value",
       NotNegative,
       false,
       true,
       {&O::initial_accumulator_value},
       0,
       "initial sum of squares"},
      {"ema_decay",
       BelowOne,
       false,
       true,
       {&O::ema_decay},
       0,
       "decay of a moving average of the weights, kept beside them (no average)"},
      {"clip_grad_value",
       AboveZero,
       false,
       true,
       {&O::clip_grad_value},
       0,
       "clip each element of the gradients to [-X, X], as clip_grad_value_ does before the "
       "optimizer's step (no clipping)"},
      {"nesterov", Flag, false, true, {}, FSDP_NESTEROV, "Nesterov momentum"},
      {"amsgrad", Flag, false, true, {}, FSDP_AMSGRAD, "AMSGrad"},
      {"centered",
       Flag,
       false,
       true,
       {},
       FSDP_CENTERED,
       "divide by an estimate of the gradients' variance"},
      {"decoupled_weight_decay",
       Flag,
       false,
       true,
       {},
       FSDP_DECOUPLED_WEIGHT_DECAY,
       "weight decay as of adamw"},
      {"maximize",
       Flag,
       false,
       true,
       {},
       FSDP_MAXIMIZE,
       "maximize the loss instead of minimizing it"},
  });
}();

/// An option that an optimizer has, and torch's default.
struct OptimizerDefault {
  std::string_view option;
  std::array<double, 2> values = {};
};

/// A tensor that an optimizer keeps of each parameter, of the parameter's shape.
struct OptimizerState {
  std::string_view name;
  std::string_view option = {}; // kept only if this option is not 0; empty: always
};

struct OptimizerKind {
  std::string_view name;
  std::array<OptimizerDefault, 9> defaults; // in the order of kOptimizerOptions; rest empty
  std::array<OptimizerState, FSDP_MAX_STATES> states; // of its formula; rest empty
  /// torch keeps the number of the step of each parameter.
  bool hasStepNumber = true;
};

/// By fsdp_optimizer_kind.
inline constexpr auto kOptimizerKinds = std::to_array<OptimizerKind>({
    {"sgd",
     {{{"lr", {1e-3}},
       {"weight_decay"},
       {"momentum"},
       {"dampening"},
       {"ema_decay"},
       {"clip_grad_value"},
       {"nesterov"},
       {"maximize"}}},
     {{{"momentum_buffer", "momentum"}}},
     /*hasStepNumber=*/false},
    {"adam",
     {{{"lr", {1e-3}},
       {"weight_decay"},
       {"betas", {0.9, 0.999}},
       {"eps", {1e-8}},
       {"ema_decay"},
       {"clip_grad_value"},
       {"amsgrad"},
       {"maximize"}}},
     {{{"exp_avg"}, {"exp_avg_sq"}, {"max_exp_avg_sq", "amsgrad"}}}},
    {"adamw",
     {{{"lr", {1e-3}},
       {"weight_decay", {1e-2}},
       {"betas", {0.9, 0.999}},
       {"eps", {1e-8}},
       {"ema_decay"},
       {"clip_grad_value"},
       {"amsgrad"},
       {"maximize"}}},
     {{{"exp_avg"}, {"exp_avg_sq"}, {"max_exp_avg_sq", "amsgrad"}}}},
    {"rmsprop",
     {{{"lr", {1e-2}},
       {"weight_decay"},
       {"momentum"},
       {"alpha", {0.99}},
       {"eps", {1e-8}},
       {"ema_decay"},
       {"clip_grad_value"},
       {"centered"},
       {"maximize"}}},
     {{{"square_avg"}, {"momentum_buffer", "momentum"}, {"grad_avg", "centered"}}}},
    {"adagrad",
     {{{"lr", {1e-2}},
       {"weight_decay"},
       {"eps", {1e-10}},
       {"lr_decay"},
       {"initial_accumulator_value"},
       {"ema_decay"},
       {"clip_grad_value"},
       {"maximize"}}},
     {{{"sum"}}}},
    {"adamax",
     {{{"lr", {2e-3}},
       {"weight_decay"},
       {"betas", {0.9, 0.999}},
       {"eps", {1e-8}},
       {"ema_decay"},
       {"clip_grad_value"},
       {"maximize"}}},
     {{{"exp_avg"}, {"exp_inf"}}}},
    {"nadam",
     {{{"lr", {2e-3}},
       {"weight_decay"},
       {"betas", {0.9, 0.999}},
       {"eps", {1e-8}},
       {"momentum_decay", {4e-3}},
       {"ema_decay"},
       {"clip_grad_value"},
       {"decoupled_weight_decay"},
       {"maximize"}}},
     {{{"exp_avg"}, {"exp_avg_sq"}}}},
    {"radam",
     {{{"lr", {1e-3}},
       {"weight_decay"},
       {"betas", {0.9, 0.999}},
       {"eps", {1e-8}},
       {"ema_decay"},
       {"clip_grad_value"},
       {"decoupled_weight_decay"},
       {"maximize"}}},
     {{{"exp_avg"}, {"exp_avg_sq"}}}},
    {"adadelta",
     {{{"lr", {1.0}},
       {"weight_decay"},
       {"rho", {0.9}},
       {"eps", {1e-6}},
       {"ema_decay"},
       {"clip_grad_value"},
       {"maximize"}}},
     {{{"square_avg"}, {"acc_delta"}}}},
});
static_assert(kOptimizerKinds.size() == FSDP_NUM_OPTIMIZER_KINDS);

inline const OptimizerKind &kindOf(const fsdp_optimizer &optimizer) {
  return kOptimizerKinds[optimizer.kind];
}

/// The option of this name, or null.
constexpr const OptimizerOption *findOption(std::string_view name) {
  for (const OptimizerOption &option : kOptimizerOptions)
    if (option.name == name)
      return &option;
  return nullptr;
}

/// The options that an optimizer has, and their defaults.
constexpr std::span<const OptimizerDefault> defaultsOf(const OptimizerKind &kind) {
  size_t count = 0;
  while (count < kind.defaults.size() && !kind.defaults[count].option.empty())
    ++count;
  return std::span(kind.defaults).first(count);
}

/// The default of an option; null if the optimizer does not have the option.
constexpr const OptimizerDefault *findDefault(const OptimizerKind &kind, std::string_view option) {
  for (const OptimizerDefault &known : defaultsOf(kind))
    if (known.option == option)
      return &known;
  return nullptr;
}

/// The moving average of the weights (torch.optim.swa_utils.AveragedModel), a state of every
/// optimizer with `ema_decay`.
inline constexpr std::string_view kAverage = "ema";

/// The states of an optimizer whose options `isSet` says not to be 0, into the first elements of
/// the result, in the order of a plan; the others have no name.
template <typename IsSet>
constexpr std::array<std::string_view, FSDP_MAX_KEPT_STATES> statesOf(const OptimizerKind &kind,
                                                                      IsSet isSet) {
  std::array<std::string_view, FSDP_MAX_KEPT_STATES> names;
  size_t count = 0;
  for (const OptimizerState &state : kind.states)
    if (!state.name.empty() && (state.option.empty() || isSet(state.option)))
      names[count++] = state.name;
  if (isSet("ema_decay"))
    names[count] = kAverage;
  return names;
}

/// True if weight decay changes the parameters alone, and not their gradients.
inline bool decouplesWeightDecay(const fsdp_optimizer &optimizer) {
  return optimizer.kind == FSDP_ADAMW || (optimizer.options & FSDP_DECOUPLED_WEIGHT_DECAY) != 0;
}

/// nadam's momentum at a step.
inline double nadamMomentum(const fsdp_optimizer &optimizer, double step) {
  return optimizer.beta1 * (1.0 - 0.5 * std::pow(0.96, step * optimizer.momentum_decay));
}

/// nadam's `mu_product`: the product of the momenta of steps 1 to `step`, which torch keeps of each
/// parameter and multiplies in fp32. It follows from the options. `begin`, `product`: an earlier
/// step and its result.
inline float nadamProduct(const fsdp_optimizer &optimizer, int64_t step, int64_t begin = 0,
                          float product = 1) {
  while (begin < step && product != 0)
    product *= static_cast<float>(nadamMomentum(optimizer, static_cast<double>(++begin)));
  return product;
}

/// nadam's product, which goes on from the last step that was asked for.
class NadamProduct {
public:
  float at(const fsdp_optimizer &optimizer, int64_t step) {
    product =
        step < last ? nadamProduct(optimizer, step) : nadamProduct(optimizer, step, last, product);
    last = step;
    return product;
  }

private:
  int64_t last = 0;
  float product = 1;
};

/// "sgd, adam, ... or adadelta".
inline std::string listOptimizers() {
  std::string text;
  std::string_view last;
  for (const OptimizerKind &kind : kOptimizerKinds) {
    if (!last.empty())
      text += (text.empty() ? "" : ", ") + std::string(last);
    last = kind.name;
  }
  return text + (text.empty() ? "" : " or ") + std::string(last);
}

} // namespace fsdp::plan

#endif // FSDP_PLAN_OPTIMIZERS_H
