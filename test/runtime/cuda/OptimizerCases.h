//===- OptimizerCases.h - Optimizers with all of their options --*- C++ -*-===//

#ifndef FSDP_TEST_RUNTIME_CUDA_OPTIMIZERCASES_H
#define FSDP_TEST_RUNTIME_CUDA_OPTIMIZERCASES_H

#include "../Optimizers.h"

#include <vector>

namespace fsdp::test {

/// True if the optimizer keeps state `index` of its kind.
inline bool hasState(const fsdp_optimizer &optimizer, unsigned index) {
  const plan::OptimizerState &state = plan::kindOf(optimizer).states[index];
  return !state.name.empty() &&
         (state.option.empty() || plan::findOption(state.option)->valueOf(optimizer) != 0);
}

inline std::vector<fsdp_optimizer> optimizerCases() {
  return {
      makeOptimizer(FSDP_SGD),
      makeOptimizer(FSDP_SGD, {{"weight_decay", {0.1}}, {"momentum", {0.9}}}),
      makeOptimizer(FSDP_SGD, {{"weight_decay", {0.1}}, {"momentum", {0.9}}, {"nesterov", {1}}}),
      makeOptimizer(FSDP_SGD, {{"momentum", {0.9}}, {"dampening", {0.3}}, {"maximize", {1}}}),
      makeOptimizer(FSDP_ADAM),
      makeOptimizer(FSDP_ADAM, {{"weight_decay", {0.1}}, {"betas", {0.9, 0.95}}}),
      makeOptimizer(FSDP_ADAM, {{"weight_decay", {0.1}}, {"amsgrad", {1}}}),
      makeOptimizer(FSDP_ADAMW, {{"weight_decay", {0.1}}}),
      makeOptimizer(FSDP_ADAMW, {{"weight_decay", {0.1}}, {"betas", {0.3, 0.999}}}),
      makeOptimizer(FSDP_RMSPROP),
      makeOptimizer(FSDP_RMSPROP, {{"weight_decay", {0.1}}, {"momentum", {0.9}}}),
      makeOptimizer(FSDP_RMSPROP, {{"centered", {1}}, {"maximize", {1}}}),
      makeOptimizer(
          FSDP_RMSPROP,
          {{"weight_decay", {0.1}}, {"momentum", {0.9}}, {"centered", {1}}, {"alpha", {0.3}}}),
      makeOptimizer(FSDP_ADAGRAD),
      makeOptimizer(
          FSDP_ADAGRAD,
          {{"weight_decay", {0.1}}, {"lr_decay", {0.1}}, {"initial_accumulator_value", {0.25}}}),
      makeOptimizer(FSDP_ADAMAX),
      makeOptimizer(FSDP_ADAMAX, {{"weight_decay", {0.1}}, {"betas", {0.3, 0.9}}}),
      makeOptimizer(FSDP_NADAM, {{"maximize", {1}}}),
      makeOptimizer(FSDP_NADAM, {{"weight_decay", {0.1}}, {"momentum_decay", {0.5}}}),
      makeOptimizer(FSDP_NADAM, {{"weight_decay", {0.1}}, {"decoupled_weight_decay", {1}}}),
      makeOptimizer(FSDP_RADAM),
      makeOptimizer(FSDP_RADAM, {{"weight_decay", {0.1}}}),
      makeOptimizer(
          FSDP_RADAM,
          {{"weight_decay", {0.1}}, {"decoupled_weight_decay", {1}}, {"betas", {0.9, 0.95}}}),
      makeOptimizer(FSDP_ADADELTA),
      makeOptimizer(FSDP_ADADELTA, {{"weight_decay", {0.1}}, {"rho", {0.3}}}),
  };
}

} // namespace fsdp::test

#endif // FSDP_TEST_RUNTIME_CUDA_OPTIMIZERCASES_H
