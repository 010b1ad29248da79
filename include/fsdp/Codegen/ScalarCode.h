//===- ScalarCode.h - One element of an aten operator ------------*- C++ -*-===//
//
// Which calls of aten a generated kernel can compute, and the arithmetic of one element of their
// results. A number is an f32 while it is computed with, a bool an i1.
//
// An exact kernel rounds where torch's operator does: after each call, to the dtype of its result.
// Every operator that it may hold gives on CPUs the same bits whatever vectors torch computes it
// by. (A NaN is a NaN; its payload may be another one.) A fast kernel computes in fp32 and rounds
// only what it stores.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_CODEGEN_SCALARCODE_H
#define FSDP_CODEGEN_SCALARCODE_H

#include "fsdp/IR/Fsdp.h"
#include "mlir/IR/Builders.h"

namespace fsdp::codegen {

/// A dtype that kernels compute with: f32, bf16, f16.
bool isKernelElement(mlir::Type element);

/// True if each element of the call's one result follows from the elements at the same place of its
/// operands (which may be broadcast), and a kernel of this rounding can compute it.
bool isElementwise(aten::CallOp call, Rounding rounding);

/// True if the call adds up, or averages, each row of its operand, the last dimension, which stays
/// with size 1, or adds up exponentials (`logsumexp`, only in fast kernels), or picks a number of
/// it (isRowPick), and a kernel of this rounding can compute it.
bool isRowReduction(aten::CallOp call, Rounding rounding);

/// True if the call picks one number of each row, that of the column which its second operand
/// names: `gather`. Only fast kernels have it; where no column is named the number is NaN.
bool isRowPick(aten::CallOp call, Rounding rounding);

/// True if the call adds up the rows of each chunk, column by column: a sum over the middle one of
/// three dimensions, in fp32. Only fast kernels have it, as a result that nothing in them reads.
bool isColumnSum(aten::CallOp call, Rounding rounding);

/// True for operators on whole rows, the last dimension, whose results have the shape of what they
/// are computed from: `_log_softmax` and its backward, the backward of `nll_loss`, whose rows are
/// samples, and that of a pick (`new_zeros`, `scatter_add`). Only fast kernels have them.
bool isRowOperator(aten::CallOp call, Rounding rounding);

/// True for an operand that has one number for each row in its only dimension: the targets of a
/// loss's backward and, without a reduction, the gradient.
bool isRowOperand(mlir::OpOperand &use, Rounding rounding);

/// What computes: GPUs have instructions of their own for reciprocals, exponentials and bf16.
enum class Processor { Cpu, Gpu };

/// Writes the arithmetic at a builder's place.
class ScalarCode {
public:
  ScalarCode(mlir::OpBuilder &builder, mlir::Location loc, Rounding rounding, Processor processor)
      : builder(builder), loc(loc), rounding(rounding), processor(processor) {}

  /// The type in which an element lies in memory: bool as i8, and for CPUs bf16 as i16.
  mlir::Type getMemoryType(mlir::Type element);
  mlir::Value fromMemory(mlir::Value stored, mlir::Type element);
  mlir::Value toMemory(mlir::Value scalar, mlir::Type element);

  /// An element of the result of an elementwise call from those of its operands.
  mlir::Value compute(aten::CallOp call, llvm::ArrayRef<mlir::Value> operands);
  /// What the call's dtype keeps of a number, in an exact kernel.
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
