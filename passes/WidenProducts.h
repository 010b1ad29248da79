//===- WidenProducts.h - Gradients that products store in fp32 ---*- C++ -*-===//

#ifndef FSDP_PASSES_WIDENPRODUCTS_H
#define FSDP_PASSES_WIDENPRODUCTS_H

#include "fsdp/IR/Fsdp.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fsdp {

/// Lets products whose only reader is the cast of a gradient to fp32, through views of all of them
/// too, store fp32 (fsdp/Analysis/WideProducts.h). The cast of what is no gradient may be a part of
/// a kernel, which then reads half as many bytes. Returns how many casts are gone.
int64_t widenProducts(mlir::func::FuncOp step);

} // namespace fsdp

#endif // FSDP_PASSES_WIDENPRODUCTS_H
