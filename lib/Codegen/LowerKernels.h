//===- LowerKernels.h - From dialects to LLVM --------------------*- C++ -*-===//

#ifndef FSDP_LIB_CODEGEN_LOWERKERNELS_H
#define FSDP_LIB_CODEGEN_LOWERKERNELS_H

#include "fsdp/Codegen/KernelShape.h"
#include "mlir/IR/BuiltinOps.h"

#include <memory>

namespace llvm {
class LLVMContext;
class Module;
class TargetMachine;
} // namespace llvm

namespace fsdp::codegen {

/// The name of the kernel's function. Kernels of equal bodies have equal names.
std::string nameFunction(KernelOp kernel);

/// Errors are reported at the kernel if it cannot be generated.
llvm::FailureOr<KernelShape> getShape(KernelOp kernel);

/// Null, with a diagnostic, if the module cannot be lowered.
std::unique_ptr<llvm::Module> lowerToLlvm(mlir::ModuleOp module, llvm::LLVMContext &context);

/// LLVM's -O3 for the machine.
void optimize(llvm::Module &module, llvm::TargetMachine &machine);

} // namespace fsdp::codegen

#endif // FSDP_LIB_CODEGEN_LOWERKERNELS_H
