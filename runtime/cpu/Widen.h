//===- Widen.h - Casts between fp32 and narrower dtypes ----------*- C++ -*-===//

#ifndef FSDP_RUNTIME_WIDEN_H
#define FSDP_RUNTIME_WIDEN_H

#include "fsdp/Plan/Abi.h"

#include <cstddef>

namespace fsdp::rt {

/// to[i] = from[i], of FSDP_F32, FSDP_BF16 or FSDP_F16.
void widen(const std::byte *from, fsdp_dtype dtype, float *to, size_t count);

/// to[i] = from[i], rounded to the nearest, ties to even, as torch's copy_ rounds. A NaN stays a
/// NaN, perhaps with another payload.
void narrow(const float *from, std::byte *to, fsdp_dtype dtype, size_t count);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_WIDEN_H
