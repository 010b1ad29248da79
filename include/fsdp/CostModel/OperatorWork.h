//===- OperatorWork.h - Arithmetic and bytes of aten operators ---*- C++ -*-===//
//
// The arithmetic and memory traffic of one call, from its shapes. A multiply-add is two operations.
// Bytes are the least that a kernel must read and write, each once; an operand that repeats
// elements (stride 0) counts its distinct elements.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_COSTMODEL_OPERATORWORK_H
#define FSDP_COSTMODEL_OPERATORWORK_H

#include "fsdp/IR/Fsdp.h"

namespace fsdp::cost {

/// The rate of a device that bounds the arithmetic.
enum class Arithmetic : uint8_t {
  None,          // moves data: element-wise operators, reductions, copies, lookups
  MatrixProduct, // products and convolutions
  Attention,     // fused attention: products of tiles with a softmax between them
  AttentionBackward
};

struct OperatorWork {
  Arithmetic arithmetic = Arithmetic::None;
  double flops = 0;         // of `arithmetic`; 0 without any
  int64_t bytes = 0;        // read and written
  mlir::Type element;       // dtype of the multiplied operands; null without arithmetic
  bool runsNothing = false; // a view, or uninitialized memory

  /// Elements that torch's CUDA kernels load, convert or address one at a time instead of in 16
  /// bytes: of operands that are broadcast, strided or of several dtypes. Operators with more or
  /// fewer instructions per element count proportionally more or fewer.
  double singleElements = 0;
  /// Bytes of one row, and bytes that later passes over rows read again if no cache holds a row.
  int64_t rowBytes = 0, rereadBytes = 0;
};

/// Operators without a rule of their own read their operands and write their results once. Their
/// shapes decide whether they are elementwise, a reduction, or neither.
OperatorWork countWork(aten::CallOp call);

/// The work of a generated kernel, which reads its operands and writes its results once. Long rows
/// count again for each reduction of its body and for the results stored afterwards.
OperatorWork countWork(LaunchOp launch);

/// Bytes of the distinct elements of a tensor of this type.
int64_t getMovedBytes(mlir::RankedTensorType type);
/// The sum over all operands and results of an operation.
int64_t getMovedBytes(mlir::Operation *op);

} // namespace fsdp::cost

#endif // FSDP_COSTMODEL_OPERATORWORK_H
