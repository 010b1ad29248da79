//===- RowOperators.h - Operators on whole rows ------------------*- C++ -*-===//
//
// What a kernel finds of a row before it can compute an element of it: its largest number, sums.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_CODEGEN_ROWOPERATORS_H
#define FSDP_LIB_CODEGEN_ROWOPERATORS_H

#include "fsdp/IR/Aten.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace fsdp::codegen {

class Arithmetic;

/// How numbers of a row become one.
enum class Combine { Sum, Largest };

/// One row, to which code is written.
struct RowSite {
  /// Combines one number of each column: writes it from the operand's value there.
  using Term = llvm::function_ref<mlir::Value(mlir::Value operand)>;
  llvm::function_ref<mlir::Value(mlir::Value operand, Combine, Term)> combine;
  /// The same in all columns: an operand of one number, or of one for each row.
  llvm::function_ref<mlir::Value(mlir::Value operand)> get;
  /// What an operand has in a column (i64) that is a number of the row; NaN where there is none.
  llvm::function_ref<mlir::Value(mlir::Value operand, mlir::Value column)> pick;
};

/// The logarithm of the sum of exponentials of a row.
mlir::Value
writeLogSumExp(mlir::Value operand, const Arithmetic &m,
               llvm::function_ref<mlir::Value(mlir::Value, Combine, RowSite::Term)> combine);

/// The numbers of the row on which each element of the call's result depends.
llvm::SmallVector<mlir::Value> writeRowNumbers(aten::CallOp call, const Arithmetic &m,
                                               const RowSite &site);

/// An element of the result. `get` reads an operand at the place; `column` is the place's (i64).
mlir::Value writeRowElement(aten::CallOp call, const Arithmetic &m,
                            llvm::ArrayRef<mlir::Value> rowNumbers, mlir::Value column,
                            llvm::function_ref<mlir::Value(mlir::Value operand)> get);

} // namespace fsdp::codegen

#endif // FSDP_LIB_CODEGEN_ROWOPERATORS_H
