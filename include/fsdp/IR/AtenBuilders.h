//===- AtenBuilders.h - Calls that passes add to a step ----------*- C++ -*-===//

#ifndef FSDP_IR_ATENBUILDERS_H
#define FSDP_IR_ATENBUILDERS_H

#include "fsdp/IR/Aten.h"
#include "mlir/IR/Builders.h"

namespace fsdp::aten {

/// A copy of a tensor, contiguous at offset 0 of a storage of its own.
mlir::Value cloneContiguously(mlir::OpBuilder &builder, mlir::Value tensor, Phase phase,
                              ScopeAttr scope);

} // namespace fsdp::aten

#endif // FSDP_IR_ATENBUILDERS_H
