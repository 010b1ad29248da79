//===- StepOp.h - What operations of a step have in common ------*- C++ -*-===//

#ifndef FSDP_IR_STEPOP_H
#define FSDP_IR_STEPOP_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/OpDefinition.h"

#include <optional>
#include <string>

#include "fsdp/IR/StepOpEnums.h.inc"

#include "fsdp/IR/StepOp.h.inc"

namespace fsdp {

/// The group whose shard, parameters, gradients or state a value is, or its start moves; null if it
/// is of none.
mlir::FlatSymbolRefAttr getGroupOf(mlir::Value value);
/// The group that an operation serves: that which it names, or whose values it makes or takes. Null
/// if it serves none, or several.
mlir::FlatSymbolRefAttr getGroupOf(mlir::Operation *op);

/// For people: `update of layers.0`, `norm of gradients`; of what is no step's operation its name.
std::string describe(mlir::Operation *op);

/// True if memory planning writes places into operations of this kind (`offset` or `offsets`).
bool hasPlaces(mlir::Operation *op);
/// The place number `index`, in bytes; none before memory planning, or if there are not as many as
/// `expected`.
std::optional<int64_t> getPlace(mlir::Operation *op, size_t index, size_t expected);
void setPlaces(mlir::Operation *op, llvm::ArrayRef<int64_t> places);

} // namespace fsdp

#endif // FSDP_IR_STEPOP_H
