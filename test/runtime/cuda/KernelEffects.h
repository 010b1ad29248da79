//===- KernelEffects.h - The kernels, run on the host -----------*- C++ -*-===//

#ifndef FSDP_TEST_RUNTIME_CUDA_KERNELEFFECTS_H
#define FSDP_TEST_RUNTIME_CUDA_KERNELEFFECTS_H

#include "cuda/kernels/Kernels.h"

namespace fsdp::rt {

/// Does to memory of the host what the kernel of these arguments does to a device's. Square roots
/// are torch's on a CPU, so that updates have the bits of the CPU's.
void runOnHost(const OptimizerUpdateArguments &arguments);
void runOnHost(const PartialNormArguments &arguments);
void runOnHost(const JoinPartialsArguments &arguments);
void runOnHost(const AverageArguments &arguments);
void runOnHost(const AccumulateArguments &arguments);
void runOnHost(const ClipFactorArguments &arguments);

} // namespace fsdp::rt

#endif // FSDP_TEST_RUNTIME_CUDA_KERNELEFFECTS_H
