//===- WideProducts.h - Products that are stored in fp32 ---------*- C++ -*-===//
//
// A GEMM of bf16 or f16 accumulates in fp32 and rounds its result. If the result is then cast to
// fp32, as gradients of weights are, the cast only costs memory traffic: cuBLAS can store the fp32
// accumulator itself. torch offers this as the overload `dtype` of mm and bmm, for CUDA.
//
// The proof that a step for GPUs computes what was captured treats the cast of a product, or of a
// view of all its elements, as equal to the product stored in fp32, or to the same view of it
// (Provenance.h). How often a result is rounded is a choice of the program, as it is in a kernel.
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

/// True for a view with each element of its operand exactly once: a cast commutes with it.
bool isWholeView(aten::CallOp call);
/// True for two transpositions of the same dimensions: applied in sequence they cancel.
bool areInverse(aten::CallOp view, aten::CallOp next);

/// True for an elementwise cast to fp32 that keeps the strides.
bool isCastToFloat(aten::CallOp call);
/// The same shape and strides, in fp32.
mlir::RankedTensorType widen(mlir::Type type);

} // namespace fsdp

#endif // FSDP_ANALYSIS_WIDEPRODUCTS_H
