//===- CpuMachine.h - LLVM's code generator for CPUs -------------*- C++ -*-===//

#ifndef FSDP_CODEGEN_CPUMACHINE_H
#define FSDP_CODEGEN_CPUMACHINE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/CodeGen.h"
#include "llvm/Support/Error.h"
#include "llvm/TargetParser/Triple.h"

#include <memory>

namespace llvm {
class TargetMachine;
}

namespace fsdp::codegen {

/// The architecture of the compiling machine, which is also the default for binaries.
llvm::Triple getHostTriple();

/// The instruction sets that kernels are compiled for, in LLVM's names, the baseline first. x86-64
/// has FSDP_NUM_KERNEL_LEVELS of them, other architectures only the baseline.
llvm::ArrayRef<llvm::StringLiteral> getCpuLevels(const llvm::Triple &triple);

/// Makes position-independent code for an instruction set of the architecture. Multiplications and
/// additions are fused only where the code says so. For an architecture other than the host's, the
/// caller initializes LLVM's target first.
llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
createCpuMachine(const llvm::Triple &triple, llvm::StringRef cpu, llvm::CodeGenOptLevel level);

} // namespace fsdp::codegen

#endif // FSDP_CODEGEN_CPUMACHINE_H
