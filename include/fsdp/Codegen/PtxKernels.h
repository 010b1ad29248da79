//===- PtxKernels.h - Kernels as PTX -----------------------------*- C++ -*-===//

#ifndef FSDP_CODEGEN_PTXKERNELS_H
#define FSDP_CODEGEN_PTXKERNELS_H

#include "fsdp/IR/Fsdp.h"

#include <string>
#include <vector>

namespace fsdp::codegen {

/// An entry of the PTX: its arguments are the addresses of the kernel's inputs and outputs.
struct PtxKernel {
  std::string function;            // CpuKernel::code
  int64_t blocks = 1, threads = 1; // to launch
  int64_t atOnce = 1;              // blocks of a multiprocessor, for which the code has registers
};

struct PtxKernels {
  std::vector<PtxKernel> kernels;
  std::string ptx;
};

/// GPUs for which code is made, as LLVM names them, oldest first. Drivers compile it for newer ones
/// too.
inline constexpr llvm::StringLiteral kChips[] = {"sm_80", "sm_90", "sm_100"};
inline constexpr llvm::StringLiteral kOldestChip = kChips[0];

/// Kernels that pass the test of ScalarCode.h as PTX for `chip` ("sm_90"). Their numbers are those
/// of the CPU's kernels but for sums of rows, which have the order of a warp's lanes.
llvm::FailureOr<PtxKernels> buildPtxKernels(llvm::ArrayRef<KernelOp> kernels, llvm::StringRef chip);

} // namespace fsdp::codegen

#endif // FSDP_CODEGEN_PTXKERNELS_H
