//===- OperatorWork.h - Arithmetic and bytes of aten operators ---*- C++ -*-===//
//
// What one call computes and moves, from its shapes. A multiply-add is two operations. Bytes are
// what a kernel cannot avoid to read and write once; an operand that repeats elements (stride 0)
// counts its distinct ones.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_COSTMODEL_OPERATORWORK_H
#define FSDP_COSTMODEL_OPERATORWORK_H

#include "fsdp/IR/Aten.h"

namespace fsdp::cost {

/// Which of a device's rates bounds the arithmetic.
enum class Arithmetic : uint8_t {
  None,          // moves data: element-wise operators, reductions, copies, lookups
  MatrixProduct, // products and convolutions
  Attention      // fused attention: products of tiles with a softmax between them
};

struct OperatorWork {
  Arithmetic arithmetic = Arithmetic::None;
  double flops = 0;         // of `arithmetic`; 0 where there is none
  int64_t bytes = 0;        // read and written
  mlir::Type element;       // of the operands that are multiplied; null without arithmetic
  bool runsNothing = false; // a view, or memory without contents
};

/// An operator without a rule of its own moves its operands and results once.
OperatorWork countWork(aten::CallOp call);

/// Bytes of the distinct elements that a tensor of this type reads or writes.
int64_t getMovedBytes(mlir::RankedTensorType type);
/// The same of all operands and results of an operation.
int64_t getMovedBytes(mlir::Operation *op);

} // namespace fsdp::cost

#endif // FSDP_COSTMODEL_OPERATORWORK_H
