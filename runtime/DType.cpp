//===- DType.cpp - Element types of a plan --------------------------------===//

#include "DType.h"

#include "fsdp/Plan/DTypes.h"

using fsdp::plan::findDType;

size_t fsdp::rt::elementBytes(uint32_t dtype) {
  const plan::DTypeFacts *facts = findDType(dtype);
  return facts ? facts->bytes : 0;
}

const char *fsdp::rt::dtypeName(uint32_t dtype) {
  const plan::DTypeFacts *facts = findDType(dtype);
  return facts ? facts->name : "?";
}
