//===- DType.cpp - Element types of a plan --------------------------------===//

#include "DType.h"

namespace {
struct Row {
  const char *name;
  size_t bytes;
};
} // namespace

static Row lookup(uint32_t dtype) {
  switch (dtype) {
  case FSDP_U8:
    return {"u8", 1};
  case FSDP_I8:
    return {"i8", 1};
  case FSDP_I16:
    return {"i16", 2};
  case FSDP_I32:
    return {"i32", 4};
  case FSDP_I64:
    return {"i64", 8};
  case FSDP_F16:
    return {"f16", 2};
  case FSDP_F32:
    return {"f32", 4};
  case FSDP_F64:
    return {"f64", 8};
  case FSDP_C64:
    return {"c64", 8};
  case FSDP_C128:
    return {"c128", 16};
  case FSDP_BOOL:
    return {"bool", 1};
  case FSDP_BF16:
    return {"bf16", 2};
  case FSDP_F8E5M2:
    return {"f8e5m2", 1};
  case FSDP_F8E4M3:
    return {"f8e4m3", 1};
  case FSDP_U64:
    return {"u64", 8};
  default:
    return {"?", 0};
  }
}

size_t fsdp::rt::elementBytes(uint32_t dtype) { return lookup(dtype).bytes; }

const char *fsdp::rt::dtypeName(uint32_t dtype) { return lookup(dtype).name; }
