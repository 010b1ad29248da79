//===- WidenProducts.h - Products that store fp32 gradients --- -*- C++ -*-===//

#ifndef FSDP_PASSES_WIDENPRODUCTS_H
#define FSDP_PASSES_WIDENPRODUCTS_H

#include "fsdp/IR/Fsdp.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fsdp {

/// Makes matrix products store fp32 if their only reader is the cast of a gradient to fp32,
/// directly or through views of the whole product (fsdp/Analysis/WideProducts.h). Casts of other
/// values stay, since they may be part of a kernel, which then reads half as many bytes. Returns
/// the number of removed casts.
int64_t widenProducts(mlir::func::FuncOp step);

} // namespace fsdp

#endif // FSDP_PASSES_WIDENPRODUCTS_H
