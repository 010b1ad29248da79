//===- LoadDialects.h - The dialects of generated code -----------*- C++ -*-===//

#ifndef FSDP_LIB_CODEGEN_LOADDIALECTS_H
#define FSDP_LIB_CODEGEN_LOADDIALECTS_H

#include "mlir/IR/MLIRContext.h"

namespace fsdp::codegen {

/// Loads the dialects that kernels are written in and translated from, if they are not loaded yet.
void loadDialects(mlir::MLIRContext &context);

} // namespace fsdp::codegen

#endif // FSDP_LIB_CODEGEN_LOADDIALECTS_H
