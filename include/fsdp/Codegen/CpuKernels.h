//===- CpuKernels.h - Kernels as native functions ----------------*- C++ -*-===//

#ifndef FSDP_CODEGEN_CPUKERNELS_H
#define FSDP_CODEGEN_CPUKERNELS_H

#include "fsdp/Codegen/CpuMachine.h"
#include "fsdp/IR/Fsdp.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace fsdp::codegen {

/// A kernel's work, and its functions (fsdp_kernel_function) by level (getCpuLevels). Kernels with
/// equal bodies have functions of one name, which linking keeps once.
struct CpuKernel {
  int64_t units = 1, grain = 1;
  std::string code; // names the rounding and the body: equal for kernels that compute the same
  std::vector<std::string> functions;
};

struct CpuKernels {
  std::vector<CpuKernel> kernels;
  std::string bitcode; // an LLVM module that defines the functions, optimized
};

/// Kernels that pass the test of ScalarCode.h; errors name the kernel and the call that does not.
/// The functions allocate nothing and call nothing, but that those for x86-64 convert f16 by
/// libgcc.
llvm::FailureOr<CpuKernels> buildCpuKernels(llvm::ArrayRef<KernelOp> kernels,
                                            const llvm::Triple &triple = getHostTriple());

/// The loops of one kernel for CPUs, as text of the dialects func, scf, arith, math, vector and
/// llvm: for people and tests.
llvm::LogicalResult printCpuKernel(KernelOp kernel, llvm::raw_ostream &os);

} // namespace fsdp::codegen

#endif // FSDP_CODEGEN_CPUKERNELS_H
