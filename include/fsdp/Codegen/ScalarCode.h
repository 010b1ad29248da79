//===- ScalarCode.h - Scalar code of aten operators -------------*- C++ -*-===//
//
// Which aten calls a generated kernel can compute, and the arithmetic of one element of their
// results. Scalars are f32 while they are computed with, bools i1.
//
// An exact kernel rounds where torch's operators do: after each call, to the dtype of its result.
// It only has operators that give the same bits on CPUs for every vector width torch may use. (NaNs
// may differ in their payload.) A fast kernel computes in fp32 and rounds only what it stores.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_CODEGEN_SCALARCODE_H
#define FSDP_CODEGEN_SCALARCODE_H

#include "fsdp/IR/Fsdp.h"
#include "mlir/IR/Builders.h"

namespace fsdp::codegen {

/// A dtype that kernels compute with: f32, bf16, f16.
bool isKernelElement(mlir::Type element);

/// True if each element of the call's only result depends only on the operands' elements at the
/// same indices (operands may be broadcast), and a kernel of this rounding can compute the call.
bool isElementwise(aten::CallOp call, Rounding rounding);

/// True if the call reduces each row (the last dimension, kept with size 1) to a sum, a mean, a
/// `logsumexp` (fast kernels only) or one of its elements (isRowPick), and a kernel of this
/// rounding can compute the call.
bool isRowReduction(aten::CallOp call, Rounding rounding);

/// True for a `gather` of one element per row, in the column that the second operand names. Fast
/// kernels only; the element is NaN if the column does not exist.
bool isRowPick(aten::CallOp call, Rounding rounding);

/// True if the call sums the rows of each chunk, column by column: a sum in fp32 over the middle
/// one of three dimensions. Fast kernels only, and no call of the kernel reads the result.
bool isColumnSum(aten::CallOp call, Rounding rounding);

/// True for operators on whole rows (the last dimension) whose results have the shape of their
/// input: `_log_softmax` and its backward, the backward of `nll_loss`, whose rows are samples, and
/// the backward of a pick (`new_zeros`, `scatter_add`). Fast kernels only.
bool isRowOperator(aten::CallOp call, Rounding rounding);

/// True for an operand with one element per row in its only dimension: the targets of a loss's
/// backward and, without a reduction, its gradient.
bool isRowOperand(mlir::OpOperand &use, Rounding rounding);

/// The target processor: GPUs have instructions of their own for reciprocals, exponentials and
/// bf16.
enum class Processor { Cpu, Gpu };

/// Writes arithmetic at a builder's insertion point.
class ScalarCode {
public:
  ScalarCode(mlir::OpBuilder &builder, mlir::Location loc, Rounding rounding, Processor processor)
      : builder(builder), loc(loc), rounding(rounding), processor(processor) {}

  /// The type of an element in memory: i8 for bool, and on CPUs i16 for bf16.
  mlir::Type getMemoryType(mlir::Type element);
  mlir::Value fromMemory(mlir::Value stored, mlir::Type element);
  mlir::Value toMemory(mlir::Value scalar, mlir::Type element);

  /// An element of an elementwise call's result, from the elements of its operands.
  mlir::Value compute(aten::CallOp call, llvm::ArrayRef<mlir::Value> operands);
  /// Rounds a scalar to `element`, as an exact kernel does with the result of a call.
  mlir::Value round(mlir::Value scalar, mlir::Type element);
  mlir::Value number(double value);

private:
  mlir::OpBuilder &builder;
  mlir::Location loc;
  Rounding rounding;
  Processor processor;
};

} // namespace fsdp::codegen

#endif // FSDP_CODEGEN_SCALARCODE_H
