//===- DelayKernel.cu - A kernel that takes a given time ------------------===//

#include "cuda/DelayKernel.h"

static __device__ unsigned long long nanosecondsNow() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

static __global__ void delayKernel(unsigned long long nanoseconds) {
  unsigned long long begin = nanosecondsNow();
  while (nanosecondsNow() - begin < nanoseconds)
    __nanosleep(200);
}

cudaError_t fsdp::rt::launchDelayKernel(uint64_t nanoseconds, cudaStream_t stream) {
  delayKernel<<<1, 1, 0, stream>>>(nanoseconds);
  return cudaGetLastError();
}
