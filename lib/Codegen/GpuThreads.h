//===- GpuThreads.h - A kernel for the threads of a GPU ----------*- C++ -*-===//

#ifndef FSDP_LIB_CODEGEN_GPUTHREADS_H
#define FSDP_LIB_CODEGEN_GPUTHREADS_H

#include "fsdp/Codegen/KernelShape.h"
#include "mlir/IR/BuiltinOps.h"

namespace fsdp::codegen {

inline constexpr int64_t kWarp = 32;

/// The launch: blocks, threads per block, and the blocks that should be resident on a
/// multiprocessor at once.
struct GpuGrid {
  int64_t blocks = 1, threads = 1, residentBlocks = 1;
};

/// Adds a function `name` of the tensors' addresses to `module`. Each thread computes a few
/// adjacent elements, or its part of a row.
GpuGrid writeGpuThreads(KernelOp kernel, const KernelShape &shape, llvm::StringRef name,
                        mlir::ModuleOp module);

} // namespace fsdp::codegen

#endif // FSDP_LIB_CODEGEN_GPUTHREADS_H
