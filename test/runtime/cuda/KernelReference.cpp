//===- KernelReference.cpp - The kernels' results, on the host ------------===//

#include "KernelReference.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

using namespace fsdp::rt;

OptimizerScalars fsdp::rt::referenceScalars(const fsdp_optimizer &optimizer,
                                            const OptimizerInputs &inputs) {
  OptimizerScalars scalars{};
  double lr = inputs.learningRate, decay = optimizer.weight_decay;
  auto step = static_cast<double>(inputs.step);
  if (optimizer.kind == FSDP_SGD) {
    scalars.sgd = {static_cast<float>(-lr),
                   static_cast<float>(decay),
                   static_cast<float>(optimizer.momentum),
                   optimizer.momentum != 0,
                   inputs.step == 1,
                   (optimizer.options & FSDP_NESTEROV) != 0,
                   static_cast<float>(1 - optimizer.dampening)};
    return scalars;
  }
  bool decoupled = optimizer.kind == FSDP_ADAMW;
  scalars.adam = {static_cast<float>(decoupled ? 1 - lr * decay : 1),
                  static_cast<float>(decoupled ? 0 : decay),
                  static_cast<float>(1 - optimizer.beta1),
                  static_cast<float>(optimizer.beta2),
                  static_cast<float>(1 - optimizer.beta2),
                  static_cast<float>(std::sqrt(1 - std::pow(optimizer.beta2, step))),
                  static_cast<float>(optimizer.eps),
                  static_cast<float>(-(lr / (1 - std::pow(optimizer.beta1, step))))};
  return scalars;
}

static void updateSgd(const SgdScalars &s, float gradient, float &parameter, float *momentum) {
  if (s.weightDecay != 0)
    gradient = std::fma(s.weightDecay, parameter, gradient);
  if (s.hasMomentum) {
    *momentum =
        s.firstStep ? gradient : std::fma(s.gradientWeight, gradient, *momentum * s.momentum);
    gradient = s.nesterov ? std::fma(s.momentum, *momentum, gradient) : *momentum;
  }
  parameter = std::fma(s.negativeLearningRate, gradient, parameter);
}

static void updateMoments(const AdamScalars &s, float gradient, float parameter, float &moment1,
                          float &moment2) {
  if (s.weightDecay != 0)
    gradient = std::fma(s.weightDecay, parameter, gradient);
  moment1 = std::abs(s.lerpWeight) < 0.5f
                ? std::fma(s.lerpWeight, gradient - moment1, moment1)
                : std::fma(s.lerpWeight - 1, gradient - moment1, gradient);
  moment2 = std::fma(s.oneMinusBeta2 * gradient, gradient, moment2 * s.beta2);
}

void fsdp::rt::roundedRoots(std::vector<float> &values) {
  for (float &value : values)
    value = std::sqrt(value);
}

void fsdp::rt::referenceUpdate(uint32_t kind, const OptimizerScalars &scalars, float clipFactor,
                               const std::vector<float> &gradients, ReferenceShard &shard,
                               void (*takeRoots)(std::vector<float> &)) {
  std::vector<float> &parameters = shard.parameters;
  for (size_t i = 0; i < gradients.size(); ++i) {
    float gradient = gradients[i] * clipFactor;
    if (kind == FSDP_SGD)
      updateSgd(scalars.sgd, gradient, parameters[i],
                shard.state[0].empty() ? nullptr : &shard.state[0][i]);
    else
      updateMoments(scalars.adam, gradient, parameters[i], shard.state[0][i], shard.state[1][i]);
  }
  if (kind == FSDP_SGD)
    return;
  const AdamScalars &s = scalars.adam;
  std::vector<float> &largest = shard.state[2];
  for (size_t i = 0; i < largest.size(); ++i)
    largest[i] =
        std::isnan(largest[i]) || largest[i] >= shard.state[1][i] ? largest[i] : shard.state[1][i];
  std::vector<float> roots = largest.empty() ? shard.state[1] : largest;
  takeRoots(roots);
  for (size_t i = 0; i < gradients.size(); ++i) {
    float denominator = roots[i] / s.sqrtCorrection2 + s.eps;
    parameters[i] = parameters[i] * s.decay + s.negativeStepSize * shard.state[0][i] / denominator;
  }
}

double fsdp::rt::referencePartialNorm(fsdp_norm_type type, const std::vector<float> &gradients) {
  long double part = 0;
  for (float gradient : gradients) {
    long double size = std::abs(static_cast<long double>(gradient));
    if (type == FSDP_NORM_INF)
      part = part < size || std::isnan(size) ? size : part;
    else
      part += type == FSDP_NORM_2 ? size * size : size;
  }
  return static_cast<double>(part);
}

float fsdp::rt::referenceClipFactor(fsdp_norm_type type, double total, float maxNorm) {
  auto norm = static_cast<float>(type == FSDP_NORM_2 ? std::sqrt(total) : total);
  float factor = 1.f / (norm + 1e-6f) * maxNorm;
  return factor > 1.f ? 1.f : factor;
}

float fsdp::rt::referenceAverage(float average, float parameter, float weight, int64_t step) {
  if (step == 1)
    return parameter;
  return std::abs(weight) < 0.5f ? std::fma(weight, parameter - average, average)
                                 : std::fma(weight - 1, parameter - average, parameter);
}

float fsdp::rt::referenceAccumulate(float to, float toScale, float from, float fromScale) {
  float scaled = from * fromScale;
  return toScale != 0 ? std::fma(to, toScale, scaled) : scaled;
}

float fsdp::rt::rounded(float value, fsdp_dtype dtype) {
  if (dtype == FSDP_BF16)
    return c10::BFloat16(value);
  return dtype == FSDP_F16 ? static_cast<float>(c10::Half(value)) : value;
}

/// Integers in the order of the floats.
static int64_t ordered(float value) {
  int32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits < 0 ? int64_t(INT32_MIN) - bits : bits;
}

int64_t fsdp::rt::ulpDistance(float a, float b) {
  if (std::isnan(a) && std::isnan(b))
    return 0;
  return std::abs(ordered(a) - ordered(b));
}
