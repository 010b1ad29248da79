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

/// Kernels of equal bodies, whatever they are called, have one name.
std::string nameFunction(KernelOp kernel);

/// Errors at the kernel where it cannot be generated.
llvm::FailureOr<KernelShape> getShape(KernelOp kernel);

/// Null, with an error, where something cannot be lowered.
std::unique_ptr<llvm::Module> lowerToLlvm(mlir::ModuleOp module, llvm::LLVMContext &context);

/// LLVM's -O3 for the machine.
void optimize(llvm::Module &module, llvm::TargetMachine &machine);

} // namespace fsdp::codegen

#endif // FSDP_LIB_CODEGEN_LOWERKERNELS_H
