//===- StepOp.h - The interface of a step's operations ----------*- C++ -*-===//

#ifndef FSDP_IR_STEPOP_H
#define FSDP_IR_STEPOP_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/OpDefinition.h"

#include <optional>
#include <string>

#include "fsdp/IR/StepOpEnums.h.inc"

#include "fsdp/IR/StepOp.h.inc"

namespace fsdp {

/// The group whose shard, parameters, gradients or state a value is, or a handle's start yields;
/// null if there is none.
mlir::FlatSymbolRefAttr getGroupOf(mlir::Value value);
/// The group that an operation names, or whose values it yields or takes. Null if there is none, or
/// several.
mlir::FlatSymbolRefAttr getGroupOf(mlir::Operation *op);

/// For messages: `update of layers.0`, `norm of gradients`; other operations by their name.
std::string describe(mlir::Operation *op);

/// True if memory planning adds arena offsets to operations of this kind (`offset` or `offsets`).
bool hasPlaces(mlir::Operation *op);
/// The arena offset number `index`, in bytes; nullopt before memory planning, or if the operation
/// has not exactly `expected` offsets.
std::optional<int64_t> getPlace(mlir::Operation *op, size_t index, size_t expected);
void setPlaces(mlir::Operation *op, llvm::ArrayRef<int64_t> places);

} // namespace fsdp

#endif // FSDP_IR_STEPOP_H
