//===- BufferUse.h - What operations do with bytes --------------*- C++ -*-===//

#ifndef FSDP_IR_BUFFERUSE_H
#define FSDP_IR_BUFFERUSE_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/OpDefinition.h"

#include <optional>

#include "fsdp/IR/BufferUseEnums.h.inc"

#include "fsdp/IR/BufferUse.h.inc"

#endif // FSDP_IR_BUFFERUSE_H
