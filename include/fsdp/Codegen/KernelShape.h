//===- KernelShape.h - What a kernel iterates over ---------------*- C++ -*-===//

#ifndef FSDP_CODEGEN_KERNELSHAPE_H
#define FSDP_CODEGEN_KERNELSHAPE_H

#include "fsdp/IR/Fsdp.h"

namespace fsdp::codegen {

/// The shape of a row's sum: the last dimension stays with size 1.
llvm::SmallVector<int64_t> getRowShape(llvm::ArrayRef<int64_t> shape);

/// All results of a kernel's calls have one shape, its domain, or that of a number for each row of
/// it. Operands of the kernel are broadcast to the domain.
class KernelShape {
public:
  /// None where the calls' shapes do not fit, or an operator is one that kernels of its rounding do
  /// not have; `problem` then says which.
  static std::optional<KernelShape> of(KernelOp kernel, std::string &problem);

  llvm::ArrayRef<int64_t> getDomain() const { return domain; }
  /// True if something is computed once for each row.
  bool isByRows() const { return byRows; }
  /// True if a tensor of this type holds one number for each row, or fewer.
  bool isOfRows(mlir::RankedTensorType type) const;
  /// The stride of each dimension of the domain, in elements; 0 where the tensor is broadcast.
  llvm::SmallVector<int64_t> getStrides(mlir::RankedTensorType type) const;

private:
  llvm::SmallVector<int64_t> domain;
  bool byRows = false;
};

} // namespace fsdp::codegen

#endif // FSDP_CODEGEN_KERNELSHAPE_H
