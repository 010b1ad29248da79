//===- OptimizerSteps.cpp - Constants of an optimizer's steps -------------===//

#include "executor/OptimizerSteps.h"

#include <cmath>

using namespace fsdp::rt;

static float f32(double number) { return static_cast<float>(number); }

namespace {
/// Terms that several optimizers share.
struct Terms {
  Terms(const fsdp_optimizer &o, double step, double lr)
      : correction1(1 - std::pow(o.beta1, step)), power2(std::pow(o.beta2, step)),
        correction2(1 - power2) {
    if (o.weight_decay != 0 && fsdp::plan::decouplesWeightDecay(o))
      decay = 1 - lr * o.weight_decay;
    else
      weightDecay = o.weight_decay;
  }

  const double correction1, power2, correction2;
  double decay = 1, weightDecay = 0;
};
} // namespace

static SgdScalars sgd(const fsdp_optimizer &o, int64_t step, double lr) {
  return {.negativeLearningRate = f32(-lr),
          .weightDecay = f32(o.weight_decay),
          .momentum = f32(o.momentum),
          .hasMomentum = o.momentum != 0,
          .firstStep = step == 1,
          .nesterov = (o.options & FSDP_NESTEROV) != 0,
          .gradientWeight = f32(1 - o.dampening)};
}

static AdamScalars adam(const fsdp_optimizer &o, const Terms &terms, double lr) {
  return {.decay = f32(terms.decay),
          .weightDecay = f32(terms.weightDecay),
          .lerpWeight = f32(1 - o.beta1),
          .beta2 = f32(o.beta2),
          .oneMinusBeta2 = f32(1 - o.beta2),
          .sqrtCorrection2 = f32(std::pow(terms.correction2, 0.5)),
          .eps = f32(o.eps),
          .negativeStepSize = f32(-(lr / terms.correction1))};
}

static RmspropScalars rmsprop(const fsdp_optimizer &o, double lr) {
  return {.weightDecay = f32(o.weight_decay),
          .alpha = f32(o.alpha),
          .oneMinusAlpha = f32(1 - o.alpha),
          .eps = f32(o.eps),
          .momentum = f32(o.momentum),
          .negativeLearningRate = f32(-lr)};
}

static AdagradScalars adagrad(const fsdp_optimizer &o, double step, double lr) {
  return {.weightDecay = f32(o.weight_decay),
          .firstStep = step == 1,
          .initialSum = f32(o.initial_accumulator_value),
          .eps = f32(o.eps),
          .negativeRate = f32(-(lr / (1 + (step - 1) * o.lr_decay)))};
}

static AdamaxScalars adamax(const fsdp_optimizer &o, const Terms &terms, double lr) {
  return {.weightDecay = f32(o.weight_decay),
          .lerpWeight = f32(1 - o.beta1),
          .beta2 = f32(o.beta2),
          .eps = f32(o.eps),
          .negativeStepSize = f32(-(lr / terms.correction1))};
}

static NadamScalars nadam(const fsdp_optimizer &o, const Terms &terms, double step, double lr,
                          double product) {
  const double momentum = fsdp::plan::nadamMomentum(o, step);
  const double next = fsdp::plan::nadamMomentum(o, step + 1);
  return {.decay = f32(terms.decay),
          .weightDecay = f32(terms.weightDecay),
          .lerpWeight = f32(1 - o.beta1),
          .beta2 = f32(o.beta2),
          .oneMinusBeta2 = f32(1 - o.beta2),
          .correction2 = f32(terms.correction2),
          .eps = f32(o.eps),
          .gradientFactor = f32(-lr * (1 - momentum) / (1 - product)),
          .momentFactor = f32(-lr * next / (1 - product * next))};
}

static RadamScalars radam(const fsdp_optimizer &o, const Terms &terms, double step, double lr) {
  const double limit = 2 / (1 - o.beta2) - 1;
  const double length = limit - 2 * step * terms.power2 / terms.correction2;
  const bool isRectified = length > 5;
  const double square = (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length);
  return {.decay = f32(terms.decay),
          .weightDecay = f32(terms.weightDecay),
          .lerpWeight = f32(1 - o.beta1),
          .beta2 = f32(o.beta2),
          .oneMinusBeta2 = f32(1 - o.beta2),
          .correction1 = f32(terms.correction1),
          .learningRate = f32(lr),
          .isRectified = isRectified,
          .eps = f32(o.eps),
          .sqrtCorrection2 = f32(std::pow(terms.correction2, 0.5)),
          .rectification = isRectified ? f32(std::pow(square, 0.5)) : 1};
}

static AdadeltaScalars adadelta(const fsdp_optimizer &o, double lr) {
  return {.weightDecay = f32(o.weight_decay),
          .rho = f32(o.rho),
          .oneMinusRho = f32(1 - o.rho),
          .eps = f32(o.eps),
          .negativeLearningRate = f32(-lr)};
}

OptimizerScalars OptimizerSteps::at(int64_t number, double lr) {
  const auto step = static_cast<double>(number);
  const Terms terms(optimizer, step, lr);
  OptimizerScalars scalars{};
  scalars.average = {.weight = f32(1 - optimizer.ema_decay), .firstStep = number == 1};
  switch (optimizer.kind) {
  case FSDP_SGD:
    scalars.sgd = sgd(optimizer, number, lr);
    break;
  case FSDP_RMSPROP:
    scalars.rmsprop = rmsprop(optimizer, lr);
    break;
  case FSDP_ADAGRAD:
    scalars.adagrad = adagrad(optimizer, step, lr);
    break;
  case FSDP_ADAMAX:
    scalars.adamax = adamax(optimizer, terms, lr);
    break;
  case FSDP_NADAM:
    scalars.nadam = nadam(optimizer, terms, step, lr, product.at(optimizer, number));
    break;
  case FSDP_RADAM:
    scalars.radam = radam(optimizer, terms, step, lr);
    break;
  case FSDP_ADADELTA:
    scalars.adadelta = adadelta(optimizer, lr);
    break;
  default:
    scalars.adam = adam(optimizer, terms, lr);
  }
  return scalars;
}
