//===- Timer.cpp - The timer kernels, for other programs ------------------===//
//
// libfsdp_timer.so: exports the timer kernels of this runtime's fake collectives, so that FSDP2's
// fake collectives take the same time (fsdp2.py). Each function returns the launch's CUDA error, 0
// if there is none.
//
//===----------------------------------------------------------------------===//

#include "cuda/TimerKernels.h"

extern "C" int fsdp_start_timer(unsigned timer, void *stream) {
  return fsdp::rt::startTimer(timer, static_cast<cudaStream_t>(stream));
}

extern "C" int fsdp_await_timer(unsigned timer, uint64_t nanoseconds, void *stream) {
  return fsdp::rt::awaitTimer(timer, nanoseconds, static_cast<cudaStream_t>(stream));
}
