//===- KernelReferences.h - What a kernel should compute ----------*- C++ -*-===//

#ifndef FSDP_TEST_CODEGEN_KERNELREFERENCES_H
#define FSDP_TEST_CODEGEN_KERNELREFERENCES_H

#include "fsdp/IR/Fsdp.h"

#include <ATen/core/Tensor.h>

namespace fsdp::test {

/// A value of a kernel, torch's tensor of it, and, of a fast kernel, the same computed in fp32 and
/// fp64 throughout.
struct KnownValue {
  mlir::Value value;
  at::Tensor tensor, single, precise;
};

/// An operand of a kernel.
KnownValue makeKnown(mlir::Value value, const at::Tensor &tensor);

/// What torch's operator makes of these operands.
KnownValue computeResult(aten::CallOp call, llvm::ArrayRef<const KnownValue *> operands,
                         Rounding rounding);

/// Not further from the numbers of fp64 than 4 times what fp32 operators are, and one rounding to
/// the result's dtype; all relative to the largest number.
void checkBound(const at::Tensor &got, const at::Tensor &single, const at::Tensor &precise);

} // namespace fsdp::test

#endif // FSDP_TEST_CODEGEN_KERNELREFERENCES_H
