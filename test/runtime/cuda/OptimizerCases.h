//===- OptimizerCases.h - Optimizers with all of their options --*- C++ -*-===//

#ifndef FSDP_TEST_RUNTIME_CUDA_OPTIMIZERCASES_H
#define FSDP_TEST_RUNTIME_CUDA_OPTIMIZERCASES_H

#include "fsdp/Plan/Optimizers.h"

#include <algorithm>
#include <map>
#include <vector>

namespace fsdp::test {

/// An optimizer with torch's defaults but for the given options.
inline fsdp_optimizer makeOptimizer(std::string_view name,
                                    std::map<std::string_view, std::vector<double>> given = {}) {
  const auto kind = std::ranges::find(plan::kOptimizerKinds, name, &plan::OptimizerKind::name);
  fsdp_optimizer optimizer{};
  optimizer.kind = static_cast<uint32_t>(kind - plan::kOptimizerKinds.begin());
  for (const plan::OptimizerDefault &known : plan::defaultsOf(*kind)) {
    const plan::OptimizerOption &option = *plan::findOption(known.option);
    for (unsigned i = 0; i < option.numValues(); ++i)
      option.setValue(
          optimizer, given.contains(known.option) ? given[known.option].at(i) : known.values[i], i);
  }
  return optimizer;
}

/// True if the optimizer keeps state `index` of its kind.
inline bool hasState(const fsdp_optimizer &optimizer, unsigned index) {
  const plan::OptimizerState &state = plan::kindOf(optimizer).states[index];
  return !state.name.empty() &&
         (state.option.empty() || plan::findOption(state.option)->valueOf(optimizer) != 0);
}

inline std::vector<fsdp_optimizer> optimizerCases() {
  return {
      makeOptimizer("sgd"),
      makeOptimizer("sgd", {{"weight_decay", {0.1}}, {"momentum", {0.9}}}),
      makeOptimizer("sgd", {{"weight_decay", {0.1}}, {"momentum", {0.9}}, {"nesterov", {1}}}),
      makeOptimizer("sgd", {{"momentum", {0.9}}, {"dampening", {0.3}}, {"maximize", {1}}}),
      makeOptimizer("adam"),
      makeOptimizer("adam", {{"weight_decay", {0.1}}, {"betas", {0.9, 0.95}}}),
      makeOptimizer("adam", {{"weight_decay", {0.1}}, {"amsgrad", {1}}}),
      makeOptimizer("adamw", {{"weight_decay", {0.1}}}),
      makeOptimizer("adamw", {{"weight_decay", {0.1}}, {"betas", {0.3, 0.999}}}),
      makeOptimizer("rmsprop"),
      makeOptimizer("rmsprop", {{"weight_decay", {0.1}}, {"momentum", {0.9}}}),
      makeOptimizer("rmsprop", {{"centered", {1}}, {"maximize", {1}}}),
      makeOptimizer(
          "rmsprop",
          {{"weight_decay", {0.1}}, {"momentum", {0.9}}, {"centered", {1}}, {"alpha", {0.3}}}),
      makeOptimizer("adagrad"),
      makeOptimizer(
          "adagrad",
          {{"weight_decay", {0.1}}, {"lr_decay", {0.1}}, {"initial_accumulator_value", {0.25}}}),
      makeOptimizer("adamax"),
      makeOptimizer("adamax", {{"weight_decay", {0.1}}, {"betas", {0.3, 0.9}}}),
      makeOptimizer("nadam", {{"maximize", {1}}}),
      makeOptimizer("nadam", {{"weight_decay", {0.1}}, {"momentum_decay", {0.5}}}),
      makeOptimizer("nadam", {{"weight_decay", {0.1}}, {"decoupled_weight_decay", {1}}}),
      makeOptimizer("radam"),
      makeOptimizer("radam", {{"weight_decay", {0.1}}}),
      makeOptimizer(
          "radam",
          {{"weight_decay", {0.1}}, {"decoupled_weight_decay", {1}}, {"betas", {0.9, 0.95}}}),
      makeOptimizer("adadelta"),
      makeOptimizer("adadelta", {{"weight_decay", {0.1}}, {"rho", {0.3}}}),
  };
}

} // namespace fsdp::test

#endif // FSDP_TEST_RUNTIME_CUDA_OPTIMIZERCASES_H
