//===- Widen.cpp - Casts between fp32 and narrower dtypes -----------------===//

#include "cpu/Widen.h"
#include "cpu/Capability.h"

#include <c10/util/Half.h>

#include <bit>
#include <cstdint>
#include <cstring>

using namespace fsdp::rt;

// c10::BFloat16 is a struct whose conversions branch, so loops over it are not vectorized.

[[gnu::always_inline]] static inline void widenLoop(const uint16_t *__restrict from,
                                                    float *__restrict to, size_t count) {
  for (size_t i = 0; i < count; ++i)
    to[i] = std::bit_cast<float>(static_cast<uint32_t>(from[i]) << 16);
}

[[gnu::always_inline]] static inline void narrowLoop(const float *__restrict from,
                                                     uint16_t *__restrict to, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<uint32_t>(from[i]);
    const uint32_t rounded = (bits + ((bits >> 16) & 1) + 0x7FFF) >> 16;
    const uint32_t ifNan = -static_cast<uint32_t>((bits & 0x7FFFFFFF) > 0x7F800000);
    to[i] = static_cast<uint16_t>((rounded & ~ifNan) | (0x7FC0 & ifNan));
  }
}

#define FSDP_CASTS(ATTRIBUTE, SUFFIX)                                                              \
  ATTRIBUTE static void widen##SUFFIX(const uint16_t *from, float *to, size_t count) {             \
    widenLoop(from, to, count);                                                                    \
  }                                                                                                \
  ATTRIBUTE static void narrow##SUFFIX(const float *from, uint16_t *to, size_t count) {            \
    narrowLoop(from, to, count);                                                                   \
  }

FSDP_CASTS(, Portable)
#if defined(__x86_64__)
FSDP_CASTS([[gnu::target("avx2")]], Avx2)
#else
FSDP_CASTS(, Avx2)
#endif

void fsdp::rt::widen(const std::byte *from, fsdp_dtype dtype, float *to, size_t count) {
  if (dtype == FSDP_F32) {
    std::memcpy(to, from, count * sizeof(float));
  } else if (dtype == FSDP_BF16) {
    auto *loop = capability() >= Capability::Avx2 ? widenAvx2 : widenPortable;
    loop(reinterpret_cast<const uint16_t *>(from), to, count);
  } else {
    const auto *values = reinterpret_cast<const c10::Half *>(from);
    for (size_t i = 0; i < count; ++i)
      to[i] = values[i];
  }
}

void fsdp::rt::narrow(const float *from, std::byte *to, fsdp_dtype dtype, size_t count) {
  if (dtype == FSDP_F32) {
    std::memcpy(to, from, count * sizeof(float));
  } else if (dtype == FSDP_BF16) {
    auto *loop = capability() >= Capability::Avx2 ? narrowAvx2 : narrowPortable;
    loop(from, reinterpret_cast<uint16_t *>(to), count);
  } else {
    auto *values = reinterpret_cast<c10::Half *>(to);
    for (size_t i = 0; i < count; ++i)
      values[i] = from[i];
  }
}
