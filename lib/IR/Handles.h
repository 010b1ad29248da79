//===- Handles.h - Checks of starts and waits -------------------*- C++ -*-===//

#ifndef FSDP_LIB_IR_HANDLES_H
#define FSDP_LIB_IR_HANDLES_H

#include "fsdp/IR/Fsdp.h"

namespace fsdp {

/// The first user of this type; null if there is none.
template <typename OpT> OpT findUser(mlir::Value value) {
  for (mlir::Operation *user : value.getUsers())
    if (auto found = llvm::dyn_cast<OpT>(user))
      return found;
  return {};
}

/// Checks that a StartT made `handle`.
template <typename StartT>
mlir::LogicalResult checkHandle(mlir::Operation *op, mlir::Value handle) {
  mlir::Operation *start = handle.getDefiningOp();
  if (llvm::isa_and_nonnull<StartT>(start))
    return mlir::success();
  mlir::InFlightDiagnostic diag = op->emitOpError("takes the handle of a ")
                                  << StartT::getOperationName();
  if (start)
    diag.attachNote(start->getLoc()) << "but it comes from " << start->getName();
  return diag;
}

/// Checks that a wait yields `expected`.
inline mlir::LogicalResult checkYields(mlir::Operation *op, mlir::Type got, mlir::Type expected,
                                       mlir::Operation *start) {
  if (got == expected)
    return mlir::success();
  mlir::InFlightDiagnostic diag = op->emitOpError("yields ") << got << ", expected " << expected;
  diag.attachNote(start->getLoc()) << "started here";
  return diag;
}

} // namespace fsdp

#endif // FSDP_LIB_IR_HANDLES_H
