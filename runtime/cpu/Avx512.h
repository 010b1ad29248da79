//===- Avx512.h - Helpers of the AVX-512 kernels -------------- -*- C++ -*-===//
//
// Functions are compiled for AVX-512 one by one: the rest of the runtime runs on any processor. On
// other architectures this header has only the vector width.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_AVX512_H
#define FSDP_RUNTIME_AVX512_H

#include "cpu/Capability.h"

namespace fsdp::rt {
/// Number of fp32 elements in a vector, and in a cache line.
constexpr int64_t kLanes = 16;
} // namespace fsdp::rt

#if defined(__x86_64__)
// g++ 12 warns of its own _mm512_undefined_ps().
#pragma GCC diagnostic push
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop

#define FSDP_AVX512 [[gnu::target("avx512f,avx512dq,avx512vl,avx2,fma")]]
#define FSDP_INLINE [[gnu::always_inline]] static inline

namespace fsdp::rt {

using Vector = __m512; // of fp32

/// True if functions that are FSDP_AVX512 may run.
inline bool hasAvx512() { return capability() == Capability::Avx512; }

FSDP_INLINE void prefetch(const float *address) {
  _mm_prefetch(reinterpret_cast<const char *>(address), _MM_HINT_T0);
}

/// A mask of the first `count` lanes; `count` is at least 1, and from 16 on the mask has all lanes.
FSDP_AVX512 FSDP_INLINE __mmask16 maskOf(int64_t count) {
  return count >= kLanes ? __mmask16(0xffff) : __mmask16((1u << count) - 1);
}

/// Shuffles of the pair (x, y) inside each 128-bit lane l: elements a, b of x, then c, d of y.
#define FSDP_IN_LANES(x, y, a, b, c, d)                                                            \
  __builtin_shufflevector(x, y, a, b, 16 + (c), 16 + (d), 4 + (a), 4 + (b), 20 + (c), 20 + (d),    \
                          8 + (a), 8 + (b), 24 + (c), 24 + (d), 12 + (a), 12 + (b), 28 + (c),      \
                          28 + (d))
/// Lanes a, b of x, then c, d of y.
#define FSDP_LANES(x, y, a, b, c, d)                                                               \
  __builtin_shufflevector(x, y, 4 * (a), 4 * (a) + 1, 4 * (a) + 2, 4 * (a) + 3, 4 * (b),           \
                          4 * (b) + 1, 4 * (b) + 2, 4 * (b) + 3, 16 + 4 * (c), 17 + 4 * (c),       \
                          18 + 4 * (c), 19 + 4 * (c), 16 + 4 * (d), 17 + 4 * (d), 18 + 4 * (d),    \
                          19 + 4 * (d))

/// Transposes the 4x4 block in each lane of four vectors.
FSDP_AVX512 FSDP_INLINE void transposeLanes(Vector *r) {
  Vector low01 = FSDP_IN_LANES(r[0], r[1], 0, 1, 0, 1);
  Vector high01 = FSDP_IN_LANES(r[0], r[1], 2, 3, 2, 3);
  Vector low23 = FSDP_IN_LANES(r[2], r[3], 0, 1, 0, 1);
  Vector high23 = FSDP_IN_LANES(r[2], r[3], 2, 3, 2, 3);
  r[0] = FSDP_IN_LANES(low01, low23, 0, 2, 0, 2);
  r[1] = FSDP_IN_LANES(low01, low23, 1, 3, 1, 3);
  r[2] = FSDP_IN_LANES(high01, high23, 0, 2, 0, 2);
  r[3] = FSDP_IN_LANES(high01, high23, 1, 3, 1, 3);
}

/// Writes the transpose of the 16x16 floats at `from` (rows `stride` apart) to rows of `to`.
FSDP_AVX512 FSDP_INLINE void transpose16(const float *from, int64_t stride, float *to,
                                         int64_t toStride) {
  Vector r[16];
  for (int i = 0; i < 16; ++i) {
    r[i] = _mm512_loadu_ps(from + i * stride);
    prefetch(from + (i + 16) * stride);
  }
  for (int i = 0; i < 16; i += 4)
    transposeLanes(r + i);
  // Lane l of r[4g + j] holds column 4l + j of rows 4g to 4g+3.
  for (int j = 0; j < 4; ++j) {
    Vector low = FSDP_LANES(r[j], r[4 + j], 0, 1, 0, 1);
    Vector high = FSDP_LANES(r[j], r[4 + j], 2, 3, 2, 3);
    Vector low8 = FSDP_LANES(r[8 + j], r[12 + j], 0, 1, 0, 1);
    Vector high8 = FSDP_LANES(r[8 + j], r[12 + j], 2, 3, 2, 3);
    _mm512_storeu_ps(to + j * toStride, FSDP_LANES(low, low8, 0, 2, 0, 2));
    _mm512_storeu_ps(to + (4 + j) * toStride, FSDP_LANES(low, low8, 1, 3, 1, 3));
    _mm512_storeu_ps(to + (8 + j) * toStride, FSDP_LANES(high, high8, 0, 2, 0, 2));
    _mm512_storeu_ps(to + (12 + j) * toStride, FSDP_LANES(high, high8, 1, 3, 1, 3));
  }
}

} // namespace fsdp::rt
#endif

#endif // FSDP_RUNTIME_AVX512_H
