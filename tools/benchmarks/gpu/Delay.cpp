//===- Delay.cpp - The delay kernel, for other programs -------------------===//
//
// libfsdp_delay.so: what a fake collective of this runtime does to a stream, so that FSDP2's can do
// the same (fsdp2.py).
//
//===----------------------------------------------------------------------===//

#include "cuda/DelayKernel.h"

/// Lets `stream` stand still for `nanoseconds`; the CUDA error of the launch, 0 if there is none.
extern "C" int fsdp_launch_delay(uint64_t nanoseconds, void *stream) {
  return fsdp::rt::launchDelayKernel(nanoseconds, static_cast<cudaStream_t>(stream));
}
