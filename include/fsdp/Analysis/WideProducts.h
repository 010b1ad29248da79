//===- WideProducts.h - Products that are stored in fp32 ---------*- C++ -*-===//
//
// A product of matrices in bf16 or f16 is added up in fp32, and rounded. If it is then cast to
// fp32, as weights' gradients are, the cast only moves bytes: cuBLAS can store the sums in fp32
// itself. torch has that as the overload `dtype` of mm and bmm, for CUDA.
//
// The proof that a step for GPUs computes what was captured takes the cast of a product, and of a
// view of all of it, for the product that is stored in fp32 and for that view of it (Provenance.h).
// How often a number is rounded is a choice of the text, as it is of a kernel.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_WIDEPRODUCTS_H
#define FSDP_ANALYSIS_WIDEPRODUCTS_H

#include "fsdp/IR/Aten.h"

namespace fsdp {

/// True for mm and bmm with a contiguous result in bf16 or f16.
bool isNarrowProduct(aten::CallOp call);
/// Callee and arguments of the product that is stored in fp32.
mlir::StringAttr getWideCallee(aten::CallOp product);
mlir::ArrayAttr getWideArguments(aten::CallOp product);

/// True for a view that shows each element of its operand once: a cast can change places with it.
bool isWholeView(aten::CallOp call);
/// True for two transpositions of the same dimensions: one behind the other they change nothing.
bool areInverse(aten::CallOp view, aten::CallOp next);

/// True for a cast to fp32 of each element where it lies: the strides stay.
bool isCastToFloat(aten::CallOp call);
/// The same shape and strides, in fp32.
mlir::RankedTensorType widen(mlir::Type type);

} // namespace fsdp

#endif // FSDP_ANALYSIS_WIDEPRODUCTS_H
