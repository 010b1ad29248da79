//===- TimerKernels.h - Kernels that take a given time ----------*- C++ -*-===//

#ifndef FSDP_RUNTIME_CUDA_TIMERKERNELS_H
#define FSDP_RUNTIME_CUDA_TIMERKERNELS_H

#include <cuda_runtime_api.h>

#include <cstdint>

namespace fsdp::rt {

/// Timers of each device, in its memory. One is used by one stream at a time.
constexpr unsigned kNumTimers = 8;

/// Launches a kernel of one thread that notes the device's clock when it runs. Returns
/// cudaErrorInvalidValue for an invalid timer, else the launch's error.
cudaError_t startTimer(unsigned timer, cudaStream_t stream);

/// Launches a kernel of one thread that ends when the device's clock is `nanoseconds` past the
/// timer's start, or at once if it is already. Until then it occupies a slot of one multiprocessor,
/// the least that a collective's kernel would occupy.
cudaError_t awaitTimer(unsigned timer, uint64_t nanoseconds, cudaStream_t stream);

/// Launches a kernel of one thread that ends `nanoseconds` after it began.
cudaError_t delay(uint64_t nanoseconds, cudaStream_t stream);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CUDA_TIMERKERNELS_H
