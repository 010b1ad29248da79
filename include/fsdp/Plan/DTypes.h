//===- DTypes.h - What is known of each element type -------------*- C++ -*-===//

#ifndef FSDP_PLAN_DTYPES_H
#define FSDP_PLAN_DTYPES_H

#include "fsdp/Plan/Abi.h"

#include <cstddef>
#include <cstdint>

namespace fsdp::plan {

struct DTypeFacts {
  fsdp_dtype dtype;
  const char *name;   // in text: f32, bf16, i64
  size_t bytes;       // of one element
  const char *inFiles; // its name in safetensors; null: files have no such tensors
};

/// Every element type, frequent ones first.
inline constexpr DTypeFacts kDTypes[] = {
    {FSDP_F32, "f32", 4, "F32"},
    {FSDP_BF16, "bf16", 2, "BF16"},
    {FSDP_F16, "f16", 2, "F16"},
    {FSDP_F64, "f64", 8, "F64"},
    {FSDP_I64, "i64", 8, "I64"},
    {FSDP_BOOL, "bool", 1, "BOOL"},
    {FSDP_I32, "i32", 4, "I32"},
    {FSDP_I16, "i16", 2, "I16"},
    {FSDP_I8, "i8", 1, "I8"},
    {FSDP_U8, "u8", 1, "U8"},
    {FSDP_F8E4M3, "f8e4m3", 1, "F8_E4M3"},
    {FSDP_F8E5M2, "f8e5m2", 1, "F8_E5M2"},
    {FSDP_C64, "c64", 8, "C64"},
    {FSDP_C128, "c128", 16, nullptr},
    {FSDP_U64, "u64", 8, nullptr}, // the state of CUDA's random number generator
};

/// Null if `dtype` is no element type.
constexpr const DTypeFacts *findDType(uint32_t dtype) {
  for (const DTypeFacts &facts : kDTypes)
    if (facts.dtype == dtype)
      return &facts;
  return nullptr;
}

} // namespace fsdp::plan

#endif // FSDP_PLAN_DTYPES_H
