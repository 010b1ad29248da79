//===- PlainNumbers.h - Numbers in assembly formats, without types -*- C++ -*-===//

#ifndef FSDP_LIB_IR_PLAINNUMBERS_H
#define FSDP_LIB_IR_PLAINNUMBERS_H

#include "mlir/IR/OpImplementation.h"

namespace fsdp {

/// Parses and prints an i64 attribute as `3` instead of `3 : i64`.
mlir::ParseResult parsePlainInteger(mlir::OpAsmParser &parser, mlir::IntegerAttr &value);
void printPlainInteger(mlir::OpAsmPrinter &printer, mlir::Operation *, mlir::IntegerAttr value);

/// Parses and prints an f64 attribute as `0.1` instead of `0.1 : f64`.
mlir::ParseResult parsePlainFloat(mlir::OpAsmParser &parser, mlir::FloatAttr &value);
void printPlainFloat(mlir::OpAsmPrinter &printer, mlir::Operation *, mlir::FloatAttr value);

} // namespace fsdp

#endif // FSDP_LIB_IR_PLAINNUMBERS_H
