//===- RowOperators.h - Operators on whole rows ------------------*- C++ -*-===//
//
// Values that a kernel needs of a whole row before it can compute its elements: maxima, sums.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_CODEGEN_ROWOPERATORS_H
#define FSDP_LIB_CODEGEN_ROWOPERATORS_H

#include "fsdp/IR/Aten.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace fsdp::codegen {

class Arithmetic;

/// How the elements of a row are combined.
enum class Combine { Sum, Largest };

/// A row for which code is written.
struct RowSite {
  /// Writes one scalar per column, from the operand's element there; these scalars are combined.
  using Term = llvm::function_ref<mlir::Value(mlir::Value operand)>;
  llvm::function_ref<mlir::Value(mlir::Value operand, Combine, Term)> combine;
  /// Reads an operand that is equal in all columns: a scalar, or one element per row.
  llvm::function_ref<mlir::Value(mlir::Value operand)> get;
  /// An operand's element in a column of the row (i64); NaN if the column does not exist.
  llvm::function_ref<mlir::Value(mlir::Value operand, mlir::Value column)> pick;
};

/// The logarithm of the sum of exponentials of a row.
mlir::Value
writeLogSumExp(mlir::Value operand, const Arithmetic &m,
               llvm::function_ref<mlir::Value(mlir::Value, Combine, RowSite::Term)> combine);

/// The values of the row that each element of the call's result depends on.
llvm::SmallVector<mlir::Value> writeRowNumbers(aten::CallOp call, const Arithmetic &m,
                                               const RowSite &site);

/// An element of the result. `get` reads an operand at its index; `column` is its column (i64).
mlir::Value writeRowElement(aten::CallOp call, const Arithmetic &m,
                            llvm::ArrayRef<mlir::Value> rowNumbers, mlir::Value column,
                            llvm::function_ref<mlir::Value(mlir::Value operand)> get);

} // namespace fsdp::codegen

#endif // FSDP_LIB_CODEGEN_ROWOPERATORS_H
