//===- Rearrangement.h - Operators that move columns -------------*- C++ -*-===//
//
// Calls whose results are elements of their operands, unchanged, in other columns of the same rows.
// A kernel computes nothing for such a call: it reads the operand at another column.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_CODEGEN_REARRANGEMENT_H
#define FSDP_CODEGEN_REARRANGEMENT_H

#include "fsdp/IR/Aten.h"

namespace fsdp::codegen {

/// True for `slice` and `split` of the last dimension: views of consecutive columns.
bool isColumnSlice(aten::CallOp call);

/// True for `cat` along the last dimension if the operands have the result's dtype.
bool isColumnConcatenation(aten::CallOp call);

/// True for an `expand` that repeats one element of each row along the last dimension.
bool isRowExpansion(aten::CallOp call);

/// True for a `view` of a contiguous tensor that keeps the rows and changes their dimensions.
bool isRowRegrouping(aten::CallOp call);

/// A view that a kernel can read through.
inline bool isKernelView(aten::CallOp call) {
  return isColumnSlice(call) || isRowExpansion(call) || isRowRegrouping(call);
}
inline bool isRearrangement(aten::CallOp call) {
  return isKernelView(call) || isColumnConcatenation(call);
}

/// A column of a value.
struct ColumnOf {
  mlir::Value value;
  int64_t column;
};
/// The operand's column that a rearranging call's result has in `column`; nullopt for other calls.
std::optional<ColumnOf> findColumn(mlir::OpResult result, int64_t column);

} // namespace fsdp::codegen

#endif // FSDP_CODEGEN_REARRANGEMENT_H
