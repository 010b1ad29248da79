//===- KernelShape.h - What a kernel iterates over ---------------*- C++ -*-===//

#ifndef FSDP_CODEGEN_KERNELSHAPE_H
#define FSDP_CODEGEN_KERNELSHAPE_H

#include "fsdp/IR/Fsdp.h"

namespace fsdp::codegen {

/// The shape of a row's sum: the last dimension stays with size 1.
llvm::SmallVector<int64_t> getRowShape(llvm::ArrayRef<int64_t> shape);

/// The number of rows, and of columns.
llvm::SmallVector<int64_t> flattenRows(llvm::ArrayRef<int64_t> shape);

/// The operand or result of a call that has the shape of its kernel's domain, or one number for
/// each row of it.
mlir::Value getDomainValue(aten::CallOp call, Rounding rounding);

/// True if a call of a result of these rows can be in a kernel whose other calls count the same
/// rows by other dimensions.
bool canFlatten(aten::CallOp call, Rounding rounding);

/// What a kernel yields and adds up has one shape, its domain, or is one number for each row of it,
/// or one row for each chunk of so many rows (isColumnSum).
/// What it computes between has these rows, and may have other columns, where the body rearranges
/// them (Rearrangement.h). Operands of the kernel are broadcast to the rows.
class KernelShape {
public:
  /// None where the calls' shapes do not fit, or an operator is one that kernels of its rounding do
  /// not have; `problem` then says which.
  static std::optional<KernelShape> of(KernelOp kernel, std::string &problem);

  llvm::ArrayRef<int64_t> getDomain() const { return domain; }
  /// True if something is computed once for each row, or columns are rearranged or added up.
  bool isByRows() const { return byRows; }
  /// The rows of a chunk whose columns are added up; 0 if none are.
  int64_t getChunkRows() const { return chunkRows; }
  /// Where segments of a row begin, and where the last one ends: within a segment every column of a
  /// concatenation is one of the same operand.
  llvm::ArrayRef<int64_t> getSegments() const { return segments; }
  /// Divides the columns at which segments begin, and by which operands are read elsewhere; 0 if
  /// there are none.
  int64_t getColumnUnit() const { return columnUnit; }
  /// True if a tensor of this type holds one number for each row, or fewer.
  bool isOfRows(mlir::RankedTensorType type) const;
  /// The stride of each dimension of the domain, in elements, of a tensor that the kernel takes or
  /// yields; 0 where it is broadcast, or holds sums of columns.
  llvm::SmallVector<int64_t> getStrides(mlir::Value tensor) const;

private:
  llvm::SmallVector<int64_t> domain, segments;
  int64_t columnUnit = 0, chunkRows = 0;
  bool byRows = false;
  bool isFlat = false; // the rows, which some calls count by other dimensions, are one dimension
};

} // namespace fsdp::codegen

#endif // FSDP_CODEGEN_KERNELSHAPE_H
