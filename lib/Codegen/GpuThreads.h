//===- GpuThreads.h - A kernel for the threads of a GPU ----------*- C++ -*-===//

#ifndef FSDP_LIB_CODEGEN_GPUTHREADS_H
#define FSDP_LIB_CODEGEN_GPUTHREADS_H

#include "fsdp/Codegen/KernelShape.h"
#include "mlir/IR/BuiltinOps.h"

namespace fsdp::codegen {

/// Threads of a block. A warp computes a row, where a kernel works by rows.
inline constexpr int64_t kGpuBlock = 256, kWarp = 32;

/// Adds to `module` a function `name` of the tensors' addresses, each thread of which computes a
/// few neighbouring elements, or its part of a row. Returns the blocks that cover the kernel.
int64_t writeGpuThreads(KernelOp kernel, const KernelShape &shape, llvm::StringRef name,
                        mlir::ModuleOp module);

} // namespace fsdp::codegen

#endif // FSDP_LIB_CODEGEN_GPUTHREADS_H
