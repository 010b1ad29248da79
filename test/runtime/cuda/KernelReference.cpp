//===- KernelReference.cpp - The kernels' results, on the host ------------===//

#include "KernelReference.h"
#include "cuda/kernels/OptimizerFormulas.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

using namespace fsdp::rt;

namespace {
struct RoundedMath {
  struct RootDivisor {
    float divisor;
    static RootDivisor of(float divisor) { return {divisor}; }
    float quotientOf(float root) const { return root / divisor; }
  };
  static float rootOf(float square) { return std::sqrt(square); }
  static float quotientOf(float numerator, float denominator) { return numerator / denominator; }
};
struct TorchMath : RoundedMath {
  static float rootOf(float square) {
    // Allocates nothing: recorded graphs run this code where allocations are placed.
    at::from_blob(&square, {}, at::kFloat).sqrt_();
    return square;
  }
};
} // namespace

template <typename Math>
static void update(uint32_t kind, const OptimizerScalars &scalars, float clipFactor,
                   const std::vector<float> &gradients, ReferenceShard &shard) {
  unsigned states = 0;
  for (unsigned k = 0; k < FSDP_MAX_STATES; ++k)
    states |= unsigned(!shard.state[k].empty()) << k;
  withFormula<Math>(kind, states, [&](auto type) {
    const typename decltype(type)::Type formula(scalars);
    for (size_t i = 0; i < gradients.size(); ++i) {
      ElementState own{};
      for (unsigned k = 0; k < FSDP_MAX_STATES; ++k)
        own[k] = shard.state[k].empty() ? 0 : shard.state[k][i];
      formula(shard.parameters[i], gradients[i] * clipFactor, own);
      for (unsigned k = 0; k < FSDP_MAX_STATES; ++k)
        if (!shard.state[k].empty())
          shard.state[k][i] = own[k];
    }
    return 0;
  });
}

void fsdp::rt::referenceUpdate(uint32_t kind, const OptimizerScalars &scalars, float clipFactor,
                               const std::vector<float> &gradients, ReferenceShard &shard,
                               Roots roots) {
  auto updateShard = roots == Roots::Torchs ? update<TorchMath> : update<RoundedMath>;
  updateShard(kind, scalars, clipFactor, gradients, shard);
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

float fsdp::rt::referenceClipFactor(fsdp_norm_type type, double total, float maxNorm,
                                    float inverseScale) {
  auto norm = static_cast<float>((type == FSDP_NORM_2 ? std::sqrt(total) : total) * inverseScale);
  float factor = 1.f / (norm + 1e-6f) * maxNorm;
  return factor > 1.f ? 1.f : factor;
}

void fsdp::rt::clipValues(std::vector<float> &gradients, float limit) {
  for (float &gradient : gradients)
    if (!std::isnan(gradient))
      gradient = std::clamp(gradient, -limit, limit);
}

float fsdp::rt::referenceAverage(float average, float parameter, const AverageScalars &scalars) {
  return scalars.firstStep ? parameter : Lerp(scalars.weight)(average, parameter);
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
