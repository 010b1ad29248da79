//===- SymbolChecks.h - Checks of symbols and their types -------*- C++ -*-===//

#ifndef FSDP_LIB_IR_SYMBOLCHECKS_H
#define FSDP_LIB_IR_SYMBOLCHECKS_H

#include "fsdp/IR/Fsdp.h"

namespace fsdp {

/// The declaration of kind OpT that `symbol` names. The error names both.
template <typename OpT>
mlir::FailureOr<OpT> resolve(mlir::Operation *op, mlir::SymbolRefAttr symbol,
                             mlir::SymbolTableCollection &symbols, llvm::StringRef what) {
  mlir::Operation *found = symbols.lookupNearestSymbolFrom(op, symbol);
  if (!found)
    return op->emitOpError("names ") << what << " " << symbol << ", which is not declared";
  if (auto declaration = llvm::dyn_cast<OpT>(found))
    return declaration;
  mlir::InFlightDiagnostic diag = op->emitOpError("names ")
                                  << what << " " << symbol << ", which is no " << what;
  diag.attachNote(found->getLoc()) << "declared here as " << found->getName();
  return diag;
}

/// Checks a type of `op` against the declaration that `symbol` names.
inline mlir::LogicalResult checkType(mlir::Operation *op, mlir::Type got, mlir::Type expected,
                                     llvm::StringRef what, mlir::SymbolRefAttr symbol,
                                     mlir::Operation *declaration) {
  if (got == expected)
    return mlir::success();
  mlir::InFlightDiagnostic diag = op->emitOpError("has type ")
                                  << got << " for " << what << " " << symbol << ", expected "
                                  << expected;
  diag.attachNote(declaration->getLoc()) << "declared here";
  return diag;
}

} // namespace fsdp

#endif // FSDP_LIB_IR_SYMBOLCHECKS_H
