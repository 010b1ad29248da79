//===- CpuLoops.h - A kernel as loops ----------------------------*- C++ -*-===//

#ifndef FSDP_LIB_CODEGEN_CPULOOPS_H
#define FSDP_LIB_CODEGEN_CPULOOPS_H

#include "fsdp/Codegen/KernelShape.h"
#include "mlir/IR/BuiltinOps.h"

namespace fsdp::codegen {

struct CpuWork {
  int64_t units = 1, grain = 1;
};

/// Adds two functions to `module`: `name`, an fsdp_kernel_function, and `name`.tensors, which it
/// calls with the tensors' addresses as separate arguments, so that each can be declared noalias.
CpuWork writeCpuLoops(KernelOp kernel, const KernelShape &shape, llvm::StringRef name,
                      mlir::ModuleOp module);

} // namespace fsdp::codegen

#endif // FSDP_LIB_CODEGEN_CPULOOPS_H
