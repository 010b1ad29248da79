//===- TimerKernels.cu - Kernels that take a given time -------------------===//

#include "cuda/TimerKernels.h"

static __device__ unsigned long long begins[fsdp::rt::kNumTimers];

static __device__ unsigned long long nanosecondsNow() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

static __global__ void startKernel(unsigned timer) { begins[timer] = nanosecondsNow(); }

static __device__ void sleepUntil(unsigned long long begin, long long nanoseconds) {
  // Signed, since this multiprocessor may read an earlier time than the one that noted `begin`.
  while (static_cast<long long>(nanosecondsNow() - begin) < nanoseconds)
    __nanosleep(200);
}

static __global__ void awaitKernel(unsigned timer, long long nanoseconds) {
  sleepUntil(begins[timer], nanoseconds);
}

static __global__ void delayKernel(long long nanoseconds) {
  sleepUntil(nanosecondsNow(), nanoseconds);
}

cudaError_t fsdp::rt::startTimer(unsigned timer, cudaStream_t stream) {
  if (timer >= kNumTimers)
    return cudaErrorInvalidValue;
  startKernel<<<1, 1, 0, stream>>>(timer);
  return cudaGetLastError();
}

cudaError_t fsdp::rt::awaitTimer(unsigned timer, uint64_t nanoseconds, cudaStream_t stream) {
  if (timer >= kNumTimers)
    return cudaErrorInvalidValue;
  awaitKernel<<<1, 1, 0, stream>>>(timer, static_cast<long long>(nanoseconds));
  return cudaGetLastError();
}

cudaError_t fsdp::rt::delay(uint64_t nanoseconds, cudaStream_t stream) {
  delayKernel<<<1, 1, 0, stream>>>(static_cast<long long>(nanoseconds));
  return cudaGetLastError();
}
