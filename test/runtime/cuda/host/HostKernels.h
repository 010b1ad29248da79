//===- HostKernels.h - CUDA kernels as functions of the host ----*- C++ -*-===//
//
// The backend's .cu files, compiled by the host's compiler, with this header in place of nvcc's
// language: a launch (launches.py) runs the blocks one after another. The threads of a block are
// fibers, each of which runs up to a barrier or to its end, then the next one. So a kernel's loops,
// loads and stores are executed without a device; that its threads run at the same time is not.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_RUNTIME_CUDA_HOST_HOSTKERNELS_H
#define FSDP_TEST_RUNTIME_CUDA_HOST_HOSTKERNELS_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstring>
#include <functional>

namespace fsdp::test {

/// The thread that runs, and its place.
struct HostThread {
  uint3 threadIdx, blockIdx;
  dim3 blockDim, gridDim;
};
extern HostThread hostThread;

/// Runs `thread` for each thread of the grid, which has one dimension.
void runOnHost(unsigned blocks, unsigned threads, const std::function<void()> &thread);
/// All threads of the block get here before one goes on.
void waitForBlock();
/// Memory that the threads of a warp share, by lane.
double *warpValues();

inline double shuffleDown(double value, int lanes) {
  const unsigned lane = hostThread.threadIdx.x % 32;
  warpValues()[lane] = value;
  waitForBlock();
  const double other = lane + lanes < 32 ? warpValues()[lane + lanes] : value;
  waitForBlock();
  return other;
}

} // namespace fsdp::test

#define threadIdx fsdp::test::hostThread.threadIdx
#define blockIdx fsdp::test::hostThread.blockIdx
#define blockDim fsdp::test::hostThread.blockDim
#define gridDim fsdp::test::hostThread.gridDim

#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __shared__
#define __shared__ static // blocks run one after another
#define __syncthreads fsdp::test::waitForBlock
#define __shfl_down_sync(mask, value, lanes) fsdp::test::shuffleDown(value, lanes)

// Rounded to the nearest, as the host's operators are (compiled without contraction).
#define __fadd_rn(a, b) ((a) + (b))
#define __fmul_rn(a, b) ((a) * (b))
#define __fdiv_rn(a, b) ((a) / (b))
#define __frcp_rn(a) (1.f / (a))
#define __fsqrt_rn(a) std::sqrt(a)
#define __fmaf_rn(a, b, c) std::fma(a, b, c)
#define __dadd_rn(a, b) ((a) + (b))
#define __dsqrt_rn(a) std::sqrt(a)
#define __fma_rn(a, b, c) std::fma(a, b, c)

inline float __int_as_float(int bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
template <typename T> T __ldcs(const T *from) { return *from; }
template <typename T> void __stcs(T *to, const T &value) { *to = value; }

#endif // FSDP_TEST_RUNTIME_CUDA_HOST_HOSTKERNELS_H
