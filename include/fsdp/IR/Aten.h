//===- Aten.h - The aten dialect --------------------------------*- C++ -*-===//

#ifndef FSDP_IR_ATEN_H
#define FSDP_IR_ATEN_H

#include "fsdp/IR/StepOp.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "fsdp/IR/AtenDialect.h.inc"
#include "fsdp/IR/AtenEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "fsdp/IR/AtenAttrs.h.inc"

#define GET_OP_CLASSES
#include "fsdp/IR/AtenOps.h.inc"

#endif // FSDP_IR_ATEN_H
