//===- KernelShape.h - The iteration space of a kernel ----------*- C++ -*-===//

#ifndef FSDP_CODEGEN_KERNELSHAPE_H
#define FSDP_CODEGEN_KERNELSHAPE_H

#include "fsdp/IR/Fsdp.h"

namespace fsdp::codegen {

/// The shape of a sum of each row: the last dimension is kept with size 1.
llvm::SmallVector<int64_t> getRowShape(llvm::ArrayRef<int64_t> shape);

/// The shape as two dimensions: the number of rows and the number of columns.
llvm::SmallVector<int64_t> flattenRows(llvm::ArrayRef<int64_t> shape);

/// The operand or result of a call that has the shape of the kernel's domain, or one element per
/// row of the domain.
mlir::Value getDomainValue(aten::CallOp call, Rounding rounding);

/// True if a call whose result has these rows can be in a kernel whose other calls have the same
/// rows in other dimensions.
bool canFlatten(aten::CallOp call, Rounding rounding);

/// The iteration space of a kernel. All results have one shape (the domain), or hold one element
/// per row of the domain, or one row per chunk of rows (isColumnSum). Intermediate values have the
/// same rows but may have other columns where the body rearranges them (Rearrangement.h). Operands
/// of the kernel are broadcast to the rows.
class KernelShape {
public:
  /// The shape of `kernel`; nullopt if the calls' shapes do not fit or an operator does not exist
  /// in kernels of this rounding. `problem` then describes the reason.
  static std::optional<KernelShape> of(KernelOp kernel, std::string &problem);

  llvm::ArrayRef<int64_t> getDomain() const { return domain; }
  /// True if some value has one element per row, or columns are rearranged or summed.
  bool isByRows() const { return byRows; }
  /// The number of rows in each chunk whose columns are summed; 0 if no columns are.
  int64_t getChunkRows() const { return chunkRows; }
  /// The first column of each segment of a row, then the end of the last segment. Within a segment
  /// all columns of a concatenation come from the same operand.
  llvm::ArrayRef<int64_t> getSegments() const { return segments; }
  /// A common divisor of the segments' first columns and of the distances by which columns are
  /// moved; 0 if there are no segments.
  int64_t getColumnUnit() const { return columnUnit; }
  /// True if a tensor of this type has one element per row, or fewer.
  bool isOfRows(mlir::RankedTensorType type) const;
  /// The stride in elements, for each dimension of the domain, of an operand or result of the
  /// kernel; 0 where it is broadcast or holds sums of columns.
  llvm::SmallVector<int64_t> getStrides(mlir::Value tensor) const;

private:
  llvm::SmallVector<int64_t> domain, segments;
  int64_t columnUnit = 0, chunkRows = 0;
  bool byRows = false;
  bool isFlat = false; // all row dimensions are one, since calls differ in them
};

} // namespace fsdp::codegen

#endif // FSDP_CODEGEN_KERNELSHAPE_H
