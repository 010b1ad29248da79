//===- DType.h - Element types of a plan -------------------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_DTYPE_H
#define FSDP_RUNTIME_DTYPE_H

#include "fsdp/Plan/Abi.h"

#include <cstddef>

namespace fsdp::rt {

/// Bytes of one element; 0 if `dtype` is not a valid type.
size_t elementBytes(uint32_t dtype);

/// The type's name: f32, bf16, f8e4m3, i64, u8, bool; "?" if `dtype` is not a valid type.
const char *dtypeName(uint32_t dtype);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_DTYPE_H
