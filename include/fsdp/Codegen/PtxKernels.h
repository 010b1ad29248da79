//===- PtxKernels.h - Kernels as PTX -----------------------------*- C++ -*-===//

#ifndef FSDP_CODEGEN_PTXKERNELS_H
#define FSDP_CODEGEN_PTXKERNELS_H

#include "fsdp/IR/Fsdp.h"

#include <string>
#include <vector>

namespace fsdp::codegen {

/// A kernel function in PTX. Its arguments are the addresses of the kernel's inputs and outputs.
struct PtxKernel {
  std::string function;            // CpuKernel::code
  int64_t blocks = 1, threads = 1; // of a launch
  int64_t residentBlocks = 1;      // per multiprocessor, as registers allow
};

struct PtxKernels {
  std::vector<PtxKernel> kernels;
  std::string ptx;
};

/// The GPUs that code is generated for, in LLVM's names, oldest first. Drivers also compile it for
/// newer GPUs.
inline constexpr llvm::StringLiteral kChips[] = {"sm_80", "sm_90", "sm_100"};
inline constexpr llvm::StringLiteral kOldestChip = kChips[0];

/// Compiles kernels whose calls pass the predicates of ScalarCode.h to PTX for `chip` ("sm_90").
/// Results equal those of the CPU kernels, except that sums of rows add in the order of a warp's
/// lanes.
llvm::FailureOr<PtxKernels> buildPtxKernels(llvm::ArrayRef<KernelOp> kernels, llvm::StringRef chip);

} // namespace fsdp::codegen

#endif // FSDP_CODEGEN_PTXKERNELS_H
