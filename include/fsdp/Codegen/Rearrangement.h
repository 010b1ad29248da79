//===- Rearrangement.h - Operators that move columns -------------*- C++ -*-===//
//
// Calls whose results hold elements of their operands as they are, at other columns of the same
// rows. A kernel computes nothing for them: it reads the operand at another column.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_CODEGEN_REARRANGEMENT_H
#define FSDP_CODEGEN_REARRANGEMENT_H

#include "fsdp/IR/Aten.h"

namespace fsdp::codegen {

/// True for `slice` and `split` of the last dimension: views of columns that are neighbours.
bool isColumnSlice(aten::CallOp call);

/// True for `cat` along the last dimension, of operands of the result's dtype.
bool isColumnConcatenation(aten::CallOp call);

/// True for an `expand` that repeats one number of each row along the last dimension.
bool isRowExpansion(aten::CallOp call);

/// True for a `view` of a contiguous tensor that has the same rows, counted by other dimensions.
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
/// The operand's column that is this column of a rearranging call's result; none for other calls.
std::optional<ColumnOf> findColumn(mlir::OpResult result, int64_t column);

} // namespace fsdp::codegen

#endif // FSDP_CODEGEN_REARRANGEMENT_H
