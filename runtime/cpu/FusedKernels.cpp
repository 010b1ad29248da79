//===- FusedKernels.cpp - fp32 loops of the optimizers ---------------------===//
//
// The project is compiled without contraction of a * b + c, so operations round as written.
//
//===----------------------------------------------------------------------===//

#include "cpu/FusedKernels.h"
#include "cpu/Capability.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

using namespace fsdp::rt;

namespace {
/// Sums in a fixed order for any vector width: element i goes to lane i mod kLanes.
constexpr size_t kLanes = 8;

struct SquareSum {
  std::array<double, kLanes> lanes{};

  [[gnu::always_inline]] void add(const float *values, size_t count) {
    for (size_t i = 0; i < count; ++i)
      lanes[i] += double(values[i]) * double(values[i]);
  }
  [[gnu::always_inline]] double total() const {
    double sum = 0;
    for (double lane : lanes)
      sum += lane;
    return sum;
  }
};
} // namespace

/// Calls body(begin, end) for blocks of kLanes elements; the last one may be shorter.
template <typename Body>
[[gnu::always_inline]] static inline void forBlocks(size_t count, Body body) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    body(i, kLanes);
  if (i < count)
    body(i, count - i);
}

[[gnu::always_inline]] static inline double sgdLoop(float *__restrict parameters,
                                                    const float *__restrict gradients,
                                                    float *__restrict momentum, size_t count,
                                                    const SgdScalars &given, float clipFactor) {
  const SgdScalars s = given;
  SquareSum squares;
  forBlocks(count, [&](size_t begin, size_t length) __attribute__((always_inline)) {
    squares.add(gradients + begin, length);
    for (size_t i = begin; i < begin + length; ++i) {
      float gradient = gradients[i] * clipFactor;
      if (s.weightDecay != 0)
        gradient = __builtin_fmaf(s.weightDecay, parameters[i], gradient);
      if (s.hasMomentum) {
        float buffer = gradient;
        if (!s.firstStep)
          buffer = __builtin_fmaf(s.gradientWeight, gradient, momentum[i] * s.momentum);
        momentum[i] = buffer;
        gradient = s.nesterov ? __builtin_fmaf(s.momentum, buffer, gradient) : buffer;
      }
      parameters[i] = __builtin_fmaf(s.negativeLearningRate, gradient, parameters[i]);
    }
  });
  return squares.total();
}

[[gnu::always_inline]] static inline double
adamMomentsLoop(const float *__restrict parameters, const float *__restrict gradients,
                float *__restrict moment1, float *__restrict moment2, float *__restrict root,
                size_t count, const AdamScalars &given, float clipFactor) {
  const AdamScalars s = given;
  // torch's lerp starts from the nearer end.
  const bool fromStart = std::abs(s.lerpWeight) < 0.5f;
  const float coefficient = fromStart ? s.lerpWeight : s.lerpWeight - 1;
  SquareSum squares;
  forBlocks(count, [&](size_t begin, size_t length) __attribute__((always_inline)) {
    squares.add(gradients + begin, length);
    for (size_t i = begin; i < begin + length; ++i) {
      float gradient = gradients[i] * clipFactor;
      if (s.weightDecay != 0)
        gradient = __builtin_fmaf(s.weightDecay, parameters[i], gradient);
      float start = moment1[i];
      moment1[i] = __builtin_fmaf(coefficient, gradient - start, fromStart ? start : gradient);
      float second = __builtin_fmaf(s.oneMinusBeta2 * gradient, gradient, moment2[i] * s.beta2);
      moment2[i] = second;
      root[i] = second;
    }
  });
  return squares.total();
}

[[gnu::always_inline]] static inline double squareSumLoop(const float *gradients, size_t count) {
  SquareSum squares;
  forBlocks(count, [&](size_t begin, size_t length)
                       __attribute__((always_inline)) { squares.add(gradients + begin, length); });
  return squares.total();
}

[[gnu::always_inline]] static inline double absoluteSumLoop(const float *gradients, size_t count) {
  std::array<double, kLanes> lanes{};
  forBlocks(count, [&](size_t begin, size_t length) __attribute__((always_inline)) {
    for (size_t i = 0; i < length; ++i)
      lanes[i] += double(std::abs(gradients[begin + i]));
  });
  double sum = 0;
  for (double lane : lanes)
    sum += lane;
  return sum;
}

[[gnu::always_inline]] static inline double largestLoop(const float *gradients, size_t count) {
  // Without the sign bit, floats compare as integers, with NaNs largest.
  std::array<uint32_t, kLanes> lanes{};
  forBlocks(count, [&](size_t begin, size_t length) __attribute__((always_inline)) {
    for (size_t i = 0; i < length; ++i)
      lanes[i] = std::max(lanes[i], std::bit_cast<uint32_t>(gradients[begin + i]) & 0x7FFFFFFFu);
  });
  return double(std::bit_cast<float>(*std::max_element(lanes.begin(), lanes.end())));
}

[[gnu::always_inline]] static inline void
adamParametersLoop(float *__restrict parameters, const float *__restrict moment1,
                   const float *__restrict root, size_t count, const AdamScalars &given) {
  const AdamScalars s = given;
  for (size_t i = 0; i < count; ++i) {
    float denominator = root[i] / s.sqrtCorrection2 + s.eps;
    parameters[i] = parameters[i] * s.decay + s.negativeStepSize * moment1[i] / denominator;
  }
}

#define FSDP_KERNELS(ATTRIBUTE, SUFFIX)                                                            \
  ATTRIBUTE static double sgd##SUFFIX(float *parameters, const float *gradients, float *momentum,  \
                                      size_t count, const SgdScalars &scalars, float clipFactor) { \
    return sgdLoop(parameters, gradients, momentum, count, scalars, clipFactor);                   \
  }                                                                                                \
  ATTRIBUTE static double adamMoments##SUFFIX(                                                     \
      const float *parameters, const float *gradients, float *moment1, float *moment2,             \
      float *root, size_t count, const AdamScalars &scalars, float clipFactor) {                   \
    return adamMomentsLoop(parameters, gradients, moment1, moment2, root, count, scalars,          \
                           clipFactor);                                                            \
  }                                                                                                \
  ATTRIBUTE static void adamParameters##SUFFIX(float *parameters, const float *moment1,            \
                                               const float *root, size_t count,                    \
                                               const AdamScalars &scalars) {                       \
    adamParametersLoop(parameters, moment1, root, count, scalars);                                 \
  }                                                                                                \
  ATTRIBUTE static double squareSum##SUFFIX(const float *gradients, size_t count) {                \
    return squareSumLoop(gradients, count);                                                        \
  }                                                                                                \
  ATTRIBUTE static double absoluteSum##SUFFIX(const float *gradients, size_t count) {              \
    return absoluteSumLoop(gradients, count);                                                      \
  }                                                                                                \
  ATTRIBUTE static double largest##SUFFIX(const float *gradients, size_t count) {                  \
    return largestLoop(gradients, count);                                                          \
  }

FSDP_KERNELS(, Portable)

const FusedKernels &fsdp::rt::portableFusedKernels() {
  static const FusedKernels kernels{sgdPortable,       adamMomentsPortable, adamParametersPortable,
                                    squareSumPortable, absoluteSumPortable, largestPortable};
  return kernels;
}

#if defined(__x86_64__)
FSDP_KERNELS([[gnu::target("avx2,fma")]], Avx2)

const FusedKernels &fsdp::rt::fusedKernels() {
  static const FusedKernels avx2{sgdAvx2,       adamMomentsAvx2, adamParametersAvx2,
                                 squareSumAvx2, absoluteSumAvx2, largestAvx2};
  return capability() >= Capability::Avx2 ? avx2 : portableFusedKernels();
}
#else
const FusedKernels &fsdp::rt::fusedKernels() { return portableFusedKernels(); }
#endif
