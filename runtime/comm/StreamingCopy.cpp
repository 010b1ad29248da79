//===- StreamingCopy.cpp - Copies that bypass the caches ------------------===//

#include "comm/StreamingCopy.h"

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

using namespace fsdp::rt;

#if defined(__x86_64__)
static constexpr size_t kLineBytes = 64, kAheadBytes = 2048;

/// Copies whole cache lines to an aligned address.
static void copyLines(std::byte *to, const std::byte *from, size_t bytes) {
  for (size_t i = 0; i < bytes; i += kLineBytes) {
    _mm_prefetch(reinterpret_cast<const char *>(from + i + kAheadBytes), _MM_HINT_T0);
    __m128i line[4];
    for (int part = 0; part < 4; ++part)
      line[part] = _mm_loadu_si128(reinterpret_cast<const __m128i *>(from + i) + part);
    for (int part = 0; part < 4; ++part)
      _mm_stream_si128(reinterpret_cast<__m128i *>(to + i) + part, line[part]);
  }
  // Streaming stores are not ordered with other stores, not even by a release.
  _mm_sfence();
}

void fsdp::rt::streamingCopy(void *to, const void *from, size_t bytes) {
  if (bytes < kStreamingCopyBytes) {
    std::memcpy(to, from, bytes);
    return;
  }
  auto *out = static_cast<std::byte *>(to);
  auto *in = static_cast<const std::byte *>(from);
  size_t head = (kLineBytes - reinterpret_cast<uintptr_t>(out) % kLineBytes) % kLineBytes;
  size_t lines = (bytes - head) / kLineBytes * kLineBytes;
  std::memcpy(out, in, head);
  copyLines(out + head, in + head, lines);
  std::memcpy(out + head + lines, in + head + lines, bytes - head - lines);
}
#else
void fsdp::rt::streamingCopy(void *to, const void *from, size_t bytes) {
  std::memcpy(to, from, bytes);
}
#endif
