//===- OperatorWork.h - Arithmetic and bytes of aten operators ---*- C++ -*-===//
//
// What one call computes and moves, from its shapes. A multiply-add is two operations. Bytes are
// what a kernel cannot avoid to read and write once; an operand that repeats elements (stride 0)
// counts its distinct ones.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_COSTMODEL_OPERATORWORK_H
#define FSDP_COSTMODEL_OPERATORWORK_H

#include "fsdp/IR/Fsdp.h"

namespace fsdp::cost {

/// Which of a device's rates bounds the arithmetic.
enum class Arithmetic : uint8_t {
  None,          // moves data: element-wise operators, reductions, copies, lookups
  MatrixProduct, // products and convolutions
  Attention,     // fused attention: products of tiles with a softmax between them
  AttentionBackward
};

struct OperatorWork {
  Arithmetic arithmetic = Arithmetic::None;
  double flops = 0;         // of `arithmetic`; 0 where there is none
  int64_t bytes = 0;        // read and written
  mlir::Type element;       // of the operands that are multiplied; null without arithmetic
  bool runsNothing = false; // a view, or memory without contents

  /// Elements that torch's CUDA kernels load, convert or find one at a time instead of by 16 bytes:
  /// operands that are broadcast, strided or of several dtypes. An operator that spends more or
  /// fewer instructions on an element than such elementwise ones counts that much more or less.
  double singleElements = 0;
  /// What passes over rows after the first one read again, where no cache holds a row so long.
  int64_t rowBytes = 0, rereadBytes = 0;
};

/// An operator without a rule of its own moves its operands and results once. By its shapes it is
/// elementwise, a reduction, or neither.
OperatorWork countWork(aten::CallOp call);

/// A generated kernel's: it moves its operands and results once. Long rows count again for each
/// reduction of its body and for what it stores afterwards.
OperatorWork countWork(LaunchOp launch);

/// Bytes of the distinct elements that a tensor of this type reads or writes.
int64_t getMovedBytes(mlir::RankedTensorType type);
/// The same of all operands and results of an operation.
int64_t getMovedBytes(mlir::Operation *op);

} // namespace fsdp::cost

#endif // FSDP_COSTMODEL_OPERATORWORK_H
