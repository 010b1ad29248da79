//===- Avx512Exp.h - The exponentials of torch's kernels ---------*- C++ -*-===//
//
// The two exponentials of torch's vectors of 16 fp32 elements: exp, which is SLEEF's expf with an
// error of at most 1 ulp, and exp_u20, which is faster. For each of the 2^32 arguments that is not
// a NaN the bits are those of torch 2.11.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_AVX512EXP_H
#define FSDP_RUNTIME_AVX512EXP_H

#include "cpu/Avx512.h"

#if defined(__x86_64__)
namespace fsdp::rt {

FSDP_AVX512 FSDP_INLINE Vector vectorOf(float number) { return _mm512_set1_ps(number); }

/// 2^n, for -127 < n < 128.
FSDP_AVX512 FSDP_INLINE Vector powerOf2(__m512i n) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(n, _mm512_set1_epi32(127)), 23));
}

/// 2^n * x, by two factors, each of which is a normal number.
FSDP_AVX512 FSDP_INLINE Vector scaleByPowerOf2(Vector x, __m512i n) {
  __m512i half = _mm512_srai_epi32(n, 1), rest = _mm512_sub_epi32(n, half);
  return _mm512_mul_ps(_mm512_mul_ps(x, powerOf2(half)), powerOf2(rest));
}

/// exp(x), as SLEEF's Sleef_expf16_u10: x = n ln 2 + r with ln 2 in two parts, a polynomial in r.
FSDP_AVX512 FSDP_INLINE Vector sleefExp(Vector x) {
  Vector n = _mm512_roundscale_ps(_mm512_mul_ps(x, vectorOf(1.4426950408889634f)),
                                  _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  Vector r = _mm512_fmadd_ps(n, vectorOf(-0.693145751953125f), x);
  r = _mm512_fmadd_ps(n, vectorOf(-1.428606765330187045e-06f), r);
  Vector p = vectorOf(0.000198527617612853646278381f);
  p = _mm512_fmadd_ps(p, r, vectorOf(0.00139304355252534151077271f));
  p = _mm512_fmadd_ps(p, r, vectorOf(0.00833336077630519866943359f));
  p = _mm512_fmadd_ps(p, r, vectorOf(0.0416664853692054748535156f));
  p = _mm512_fmadd_ps(p, r, vectorOf(0.166666671633720397949219f));
  p = _mm512_fmadd_ps(p, r, vectorOf(0.5f));
  p = _mm512_add_ps(vectorOf(1), _mm512_fmadd_ps(_mm512_mul_ps(r, r), p, r));
  Vector y = scaleByPowerOf2(p, _mm512_cvtps_epi32(n));
  y = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, vectorOf(-104), _CMP_NLT_UQ), y);
  return _mm512_mask_mov_ps(y, _mm512_cmp_ps_mask(x, vectorOf(100), _CMP_GT_OQ),
                            vectorOf(__builtin_inff()));
}

/// exp(x), as exp_u20 of torch's vectors.
FSDP_AVX512 FSDP_INLINE Vector fastExp(Vector x) {
  const Vector smallest = vectorOf(-0x1.5d58a0p+6f), largest = vectorOf(0x1.62e430p+6f);
  __mmask16 isTooSmall = _mm512_cmp_ps_mask(x, smallest, _CMP_LT_OS);
  x = _mm512_max_ps(_mm512_min_ps(x, largest), smallest);
  __m512i n = _mm512_cvt_roundps_epi32(_mm512_fmadd_ps(x, vectorOf(0x1.715476p+0f), vectorOf(0.5f)),
                                       _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  Vector whole = _mm512_cvtepi32_ps(n);
  Vector r = _mm512_fnmadd_ps(whole, vectorOf(0x1.62e430p-1f), x);
  Vector p = _mm512_fmadd_ps(r, vectorOf(0.00828929059f), vectorOf(0.0418978221f));
  p = _mm512_fmadd_ps(r, p, vectorOf(0.166676521f));
  p = _mm512_fmadd_ps(r, p, vectorOf(0.499991506f));
  p = _mm512_fmadd_ps(r, p, vectorOf(0.999999701f));
  p = _mm512_fmadd_ps(r, p, vectorOf(1));
  // 2^(n - 1), times 2 at the end, since 2^128 is not representable.
  Vector power = powerOf2(_mm512_sub_epi32(n, _mm512_set1_epi32(1)));
  power = _mm512_mask_mov_ps(power, isTooSmall, _mm512_setzero_ps());
  return _mm512_mul_ps(_mm512_mul_ps(p, power), vectorOf(2));
}

} // namespace fsdp::rt
#endif

#endif // FSDP_RUNTIME_AVX512EXP_H
