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

/// The architecture of the machine that compiles, on which binaries run, too.
llvm::Triple getHostTriple();

/// The instruction sets for which functions of kernels are made, as LLVM names them, the baseline
/// first: x86-64 has those of FSDP_NUM_KERNEL_LEVELS, others have that one.
llvm::ArrayRef<llvm::StringLiteral> getCpuLevels(const llvm::Triple &triple);

/// Makes position-independent code for an instruction set of the architecture. Multiplications and
/// additions are fused only where the code says so. Of other architectures than the host's LLVM's
/// target is to be initialized before.
llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
createCpuMachine(const llvm::Triple &triple, llvm::StringRef cpu, llvm::CodeGenOptLevel level);

} // namespace fsdp::codegen

#endif // FSDP_CODEGEN_CPUMACHINE_H
