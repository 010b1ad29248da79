//===- VectorAdam.cpp - Adam in one pass over memory -----------------------===//

#include "cpu/VectorAdam.h"
#include "cpu/Avx512.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/sqrt.h>

#include <bit>
#include <cmath>
#include <cstring>

using namespace fsdp::rt;

#if defined(__x86_64__)
namespace {
struct Roots {
  Vector values;
  __mmask16 valid; // the lanes with normal numbers or zero
};
} // namespace

FSDP_AVX512 FSDP_INLINE Roots rootsOf(Vector x) {
  const Vector half = _mm512_set1_ps(0.5f);
  Vector estimate =
      _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_rsqrt_ps(_mm512_castps512_ps256(x))),
                         _mm256_rsqrt_ps(_mm512_extractf32x8_ps(x, 1)), 1);
  // One step corrects both the root and half its reciprocal by the same relative error.
  Vector root = _mm512_mul_ps(x, estimate), halfReciprocal = _mm512_mul_ps(estimate, half);
  Vector error = _mm512_sub_ps(half, _mm512_mul_ps(root, halfReciprocal));
  root = _mm512_add_ps(_mm512_mul_ps(root, error), root);
  halfReciprocal = _mm512_add_ps(_mm512_mul_ps(halfReciprocal, error), halfReciprocal);
  Vector remainder = _mm512_sub_ps(x, _mm512_mul_ps(root, root));
  root = _mm512_add_ps(_mm512_mul_ps(remainder, halfReciprocal), root);

  constexpr uint32_t kSmallestNormal = 0x00800000, kNormals = 0x7f000000;
  __m512i bits = _mm512_castps_si512(x);
  __mmask16 zero = _mm512_cmpeq_epi32_mask(bits, _mm512_setzero_si512());
  // The unsigned difference is too large for everything but positive normal numbers.
  __mmask16 normal = _mm512_cmplt_epu32_mask(
      _mm512_sub_epi32(bits, _mm512_set1_epi32(kSmallestNormal)), _mm512_set1_epi32(kNormals));
  return {_mm512_mask_mov_ps(root, zero, x), static_cast<__mmask16>(zero | normal)};
}

FSDP_AVX512 void fsdp::rt::vectorRoots(float *values, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes) {
    Roots roots = rootsOf(_mm512_loadu_ps(values + i));
    _mm512_mask_storeu_ps(values + i, roots.valid, roots.values);
  }
}

FSDP_AVX512 double fsdp::rt::vectorAdam(float *parameters, const float *gradients, float *moment1,
                                        float *moment2, int64_t count, const AdamScalars &scalars,
                                        float clipFactor, at::Tensor &spare) {
  // As in FusedKernels.cpp.
  const bool fromStart = std::abs(scalars.lerpWeight) < 0.5f;
  const Vector coefficient =
      _mm512_set1_ps(fromStart ? scalars.lerpWeight : scalars.lerpWeight - 1);
  const Vector clip = _mm512_set1_ps(clipFactor), decay = _mm512_set1_ps(scalars.decay);
  const Vector weightDecay = _mm512_set1_ps(scalars.weightDecay);
  const Vector beta2 = _mm512_set1_ps(scalars.beta2);
  const Vector oneMinusBeta2 = _mm512_set1_ps(scalars.oneMinusBeta2);
  const Vector correction = _mm512_set1_ps(scalars.sqrtCorrection2);
  const Vector eps = _mm512_set1_ps(scalars.eps), step = _mm512_set1_ps(scalars.negativeStepSize);
  constexpr int64_t kAhead = 16 * kLanes;
  __m512d squares = _mm512_setzero_pd();
  for (int64_t i = 0; i < count; i += kLanes) {
    for (const float *stream :
         {gradients, static_cast<const float *>(moment1), static_cast<const float *>(moment2),
          static_cast<const float *>(parameters)})
      prefetch(stream + i + kAhead);
    Vector gradient = _mm512_loadu_ps(gradients + i), parameter = _mm512_loadu_ps(parameters + i);
    // Squares of floats are exact in double, so a fused multiply-add gives the same bits.
    __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(gradient));
    __m512d high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(gradient, 1));
    squares = _mm512_fmadd_pd(low, low, squares);
    squares = _mm512_fmadd_pd(high, high, squares);
    gradient = _mm512_mul_ps(gradient, clip);
    if (scalars.weightDecay != 0)
      gradient = _mm512_fmadd_ps(weightDecay, parameter, gradient);
    Vector start = _mm512_loadu_ps(moment1 + i);
    Vector first =
        _mm512_fmadd_ps(coefficient, _mm512_sub_ps(gradient, start), fromStart ? start : gradient);
    Vector second = _mm512_fmadd_ps(_mm512_mul_ps(oneMinusBeta2, gradient), gradient,
                                    _mm512_mul_ps(_mm512_loadu_ps(moment2 + i), beta2));
    _mm512_storeu_ps(moment1 + i, first);
    _mm512_storeu_ps(moment2 + i, second);
    Roots roots = rootsOf(second);
    if (roots.valid != 0xffff) [[unlikely]] {
      auto *values = static_cast<float *>(spare.data_ptr());
      _mm512_storeu_ps(values, second);
      at::sqrt_(spare);
      roots.values = _mm512_loadu_ps(values);
    }
    Vector denominator = _mm512_add_ps(_mm512_div_ps(roots.values, correction), eps);
    Vector change = _mm512_div_ps(_mm512_mul_ps(step, first), denominator);
    _mm512_storeu_ps(parameters + i, _mm512_add_ps(_mm512_mul_ps(parameter, decay), change));
  }
  double lanes[8], total = 0;
  _mm512_storeu_pd(lanes, squares);
  for (double lane : lanes)
    total += lane;
  return total;
}

/// Compares square roots of numbers of all magnitudes, and of zero, with torch's.
static bool hasTorchsRoots() {
  constexpr int64_t kCount = 1 << 14;
  at::Tensor torchs = at::empty({kCount}, at::kFloat), ours = at::empty({kCount}, at::kFloat);
  auto *values = ours.mutable_data_ptr<float>();
  constexpr uint32_t kSmallestNormal = 0x00800000, kNormals = 0x7f000000;
  uint32_t seed = 1;
  for (int64_t i = 0; i < kCount; ++i) {
    seed = seed * 1664525u + 1013904223u;
    uint64_t place = (uint64_t(seed) * kNormals) >> 32;
    values[i] = i == 0 ? 0 : std::bit_cast<float>(kSmallestNormal + static_cast<uint32_t>(place));
  }
  std::memcpy(torchs.mutable_data_ptr(), values, ours.nbytes());
  at::sqrt_(torchs);
  vectorRoots(values, kCount);
  return std::memcmp(torchs.const_data_ptr(), values, ours.nbytes()) == 0;
}

bool fsdp::rt::isVectorAdamExact() {
  static const bool exact = hasAvx512() && hasTorchsRoots();
  return exact;
}
#else
bool fsdp::rt::isVectorAdamExact() { return false; }
void fsdp::rt::vectorRoots(float *, int64_t) {}
double fsdp::rt::vectorAdam(float *, const float *, float *, float *, int64_t, const AdamScalars &,
                            float, at::Tensor &) {
  return 0;
}
#endif
