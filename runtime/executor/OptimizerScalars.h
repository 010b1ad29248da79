//===- OptimizerScalars.h - Constants of an optimizer's step ------*- C++ -*-===//
//
// OptimizerSteps.h computes them. The code of kernels for GPUs includes this file.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_OPTIMIZERSCALARS_H
#define FSDP_RUNTIME_OPTIMIZERSCALARS_H

#include "cpu/FusedKernels.h"

namespace fsdp::rt {

// `weightDecay` and `decay` are as in AdamScalars.

struct RmspropScalars {
  float weightDecay;
  float alpha;
  float oneMinusAlpha;
  float eps;
  float momentum;
  float negativeLearningRate;
};

struct AdagradScalars {
  float weightDecay;
  bool firstStep;
  float initialSum; // of the squares, before the first step
  float eps;
  float negativeRate;
};

struct AdamaxScalars {
  float weightDecay;
  float lerpWeight; // 1 - beta1
  float beta2;
  float eps;
  float negativeStepSize;
};

struct NadamScalars {
  float decay;
  float weightDecay;
  float lerpWeight; // 1 - beta1
  float beta2;
  float oneMinusBeta2;
  float correction2;
  float eps;
  float gradientFactor; // negative, as the moment's
  float momentFactor;
};

struct RadamScalars {
  float decay;
  float weightDecay;
  float lerpWeight; // 1 - beta1
  float beta2;
  float oneMinusBeta2;
  float correction1;
  float learningRate;
  bool isRectified; // false in the first steps, and then the rest is not used
  float eps;
  float sqrtCorrection2;
  float rectification;
};

struct AdadeltaScalars {
  float weightDecay;
  float rho;
  float oneMinusRho;
  float eps;
  float negativeLearningRate;
};

/// Of the moving average of the weights.
struct AverageScalars {
  float weight; // of the weights: 1 - decay
  bool firstStep;
};

/// The member of the optimizer's kind is valid, and the average's; adam and adamw share one.
struct alignas(8) OptimizerScalars {
  AverageScalars average;
  SgdScalars sgd;
  AdamScalars adam;
  RmspropScalars rmsprop;
  AdagradScalars adagrad;
  AdamaxScalars adamax;
  NadamScalars nadam;
  RadamScalars radam;
  AdadeltaScalars adadelta;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_OPTIMIZERSCALARS_H
