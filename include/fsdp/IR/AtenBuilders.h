//===- AtenBuilders.h - Calls that passes add to a step ----------*- C++ -*-===//

#ifndef FSDP_IR_ATENBUILDERS_H
#define FSDP_IR_ATENBUILDERS_H

#include "fsdp/IR/Aten.h"
#include "mlir/IR/Builders.h"

namespace fsdp::aten {

/// A contiguous copy of a tensor, at offset 0 of its own storage.
mlir::Value cloneContiguously(mlir::OpBuilder &builder, mlir::Value tensor, Phase phase,
                              ScopeAttr scope);

/// A copy of a tensor in another dtype, with the same strides.
mlir::Value castTo(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value tensor,
                   mlir::Type dtype, Phase phase, ScopeAttr scope);

} // namespace fsdp::aten

#endif // FSDP_IR_ATENBUILDERS_H
