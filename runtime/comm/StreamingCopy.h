//===- StreamingCopy.h - Copies that bypass the caches -------- -*- C++ -*-===//

#ifndef FSDP_RUNTIME_COMM_STREAMINGCOPY_H
#define FSDP_RUNTIME_COMM_STREAMINGCOPY_H

#include <cstddef>

namespace fsdp::rt {

/// Copies of at least this size bypass the caches when they write: most of the destination would be
/// evicted before it is read, and memory need not be read before it is overwritten.
inline constexpr size_t kStreamingCopyBytes = size_t(4) << 20;

/// As memcpy(): the ranges do not overlap. What is written is visible to other threads and
/// processes after the next release operation of this one.
void streamingCopy(void *to, const void *from, size_t bytes);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_COMM_STREAMINGCOPY_H
