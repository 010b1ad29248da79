//===- DelayKernel.h - A kernel that takes a given time ---------*- C++ -*-===//

#ifndef FSDP_RUNTIME_CUDA_DELAYKERNEL_H
#define FSDP_RUNTIME_CUDA_DELAYKERNEL_H

#include <cuda_runtime_api.h>

#include <cstdint>

namespace fsdp::rt {

/// Launches a kernel of one thread that ends once the device's clock has advanced by `nanoseconds`.
/// It occupies one multiprocessor slot, as a collective's kernel would at least.
cudaError_t launchDelayKernel(uint64_t nanoseconds, cudaStream_t stream);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CUDA_DELAYKERNEL_H
