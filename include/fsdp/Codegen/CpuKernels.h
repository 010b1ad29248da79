//===- CpuKernels.h - Kernels as native functions ----------------*- C++ -*-===//

#ifndef FSDP_CODEGEN_CPUKERNELS_H
#define FSDP_CODEGEN_CPUKERNELS_H

#include "fsdp/Codegen/CpuMachine.h"
#include "fsdp/IR/Fsdp.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace fsdp::codegen {

/// A kernel's work, and its functions (fsdp_kernel_function), one per level of getCpuLevels().
/// Functions of kernels with equal bodies have equal names; the linker keeps one of each.
struct CpuKernel {
  int64_t units = 1, grain = 1;
  std::string code; // names the rounding and the body: equal for kernels with equal computations
  std::vector<std::string> functions;
};

struct CpuKernels {
  std::vector<CpuKernel> kernels;
  std::string bitcode; // an LLVM module that defines the functions, optimized
};

/// Compiles kernels whose calls pass the predicates of ScalarCode.h. Errors name the kernel and the
/// call that does not pass. The functions neither allocate nor call other functions, except that
/// those for x86-64 convert f16 by libgcc.
llvm::FailureOr<CpuKernels> buildCpuKernels(llvm::ArrayRef<KernelOp> kernels,
                                            const llvm::Triple &triple = getHostTriple());

/// Prints the loops of one kernel for CPUs in the dialects func, scf, arith, math, vector and llvm,
/// for readers and tests.
llvm::LogicalResult printCpuKernel(KernelOp kernel, llvm::raw_ostream &os);

} // namespace fsdp::codegen

#endif // FSDP_CODEGEN_CPUKERNELS_H
