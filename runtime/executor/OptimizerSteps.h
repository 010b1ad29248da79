//===- OptimizerSteps.h - Constants of an optimizer's steps -------*- C++ -*-===//

#ifndef FSDP_RUNTIME_OPTIMIZERSTEPS_H
#define FSDP_RUNTIME_OPTIMIZERSTEPS_H

#include "executor/OptimizerScalars.h"
#include "fsdp/Plan/Optimizers.h"

namespace fsdp::rt {

/// Computes an optimizer's constants as torch does: in double, then rounded to float.
class OptimizerSteps {
public:
  explicit OptimizerSteps(const fsdp_optimizer &optimizer) : optimizer(optimizer) {}

  /// Of update number `step`, from 1.
  OptimizerScalars at(int64_t step, double learningRate);

private:
  fsdp_optimizer optimizer;
  plan::NadamProduct product;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_OPTIMIZERSTEPS_H
