//===- GradientNorm.cu - Parts of gradients' norm and the clip factor ------===//

#include "cuda/kernels/Elements.cuh"

using namespace fsdp::rt;

/// joinNormParts() of a type.
template <fsdp_norm_type Type> static __device__ double join(double a, double b) {
  if (Type == FSDP_NORM_INF)
    return a > b || a != a ? a : b;
  return __dadd_rn(a, b);
}

/// `part` with one more element.
template <fsdp_norm_type Type> static __device__ double joinElement(double part, double element) {
  return Type == FSDP_NORM_2 ? __fma_rn(element, element, part) : join<Type>(part, fabs(element));
}

/// Joins the parts of the block's threads in a fixed order; the result is valid in thread 0.
template <fsdp_norm_type Type> static __device__ double joinOfBlock(double value) {
  constexpr int kWarps = kKernelThreads / 32;
  __shared__ double sums[kWarps];
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2)
    value = join<Type>(value, __shfl_down_sync(0xffffffffu, value, lanes));
  if (threadIdx.x % 32 == 0)
    sums[threadIdx.x / 32] = value;
  __syncthreads();
  double total = 0;
  if (threadIdx.x == 0)
    for (int warp = 0; warp < kWarps; ++warp)
      total = join<Type>(total, sums[warp]);
  return total;
}

/// Blocks that a multiprocessor runs at once: with 8, all 1024 blocks run at once on 128
/// multiprocessors. Norm inf needs more registers.
template <fsdp_norm_type Type> constexpr int kBlocks = Type == FSDP_NORM_INF ? 6 : 8;

template <typename T, fsdp_norm_type Type>
static __global__ void __launch_bounds__(kKernelThreads, kBlocks<Type>)
    partialNormKernel(const T *gradients, int64_t vectorElements, int64_t elements,
                      double *partials) {
  constexpr int kWidth = kWidthOf<T>;
  // Several sums, so that additions need not wait for each other; more need too many registers.
  constexpr int kSums = 4;
  double sums[kSums] = {};
  auto add = [&](const auto &g) {
#pragma unroll
    for (int i = 0; i < int(sizeof(g) / sizeof(float)); ++i)
      sums[i % kSums] = joinElement<Type>(sums[i % kSums], double(g[i]));
  };
  // The kernel reads one buffer only, so several loads at a time are needed to keep enough bytes in
  // flight.
  constexpr int kLoads = sizeof(T);
  const int64_t threads = int64_t(gridDim.x) * kKernelThreads;
  const int64_t thread = int64_t(blockIdx.x) * kKernelThreads + threadIdx.x;
  const int64_t stride = threads * kWidth;
  int64_t first = thread * kWidth;
  for (; first + (kLoads - 1) * stride < vectorElements; first += kLoads * stride) {
    float g[kLoads][kWidth];
#pragma unroll
    for (int i = 0; i < kLoads; ++i)
      load(gradients + first + i * stride, g[i]);
#pragma unroll
    for (int i = 0; i < kLoads; ++i)
      add(g[i]);
  }
  for (; first < vectorElements; first += stride) {
    float g[kWidth];
    load(gradients + first, g);
    add(g);
  }
  for (first = vectorElements + thread; first < elements; first += threads) {
    float g[1];
    load(gradients + first, g);
    add(g);
  }
  double sum = 0;
#pragma unroll
  for (int i = 0; i < kSums; ++i)
    sum = join<Type>(sum, sums[i]);
  sum = joinOfBlock<Type>(sum);
  if (threadIdx.x == 0)
    partials[blockIdx.x] = sum;
}

/// One block.
template <fsdp_norm_type Type>
static __global__ void __launch_bounds__(kKernelThreads)
    joinPartialsKernel(const double *partials, int64_t count, double *total) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += kKernelThreads)
    sum = join<Type>(sum, partials[i]);
  sum = joinOfBlock<Type>(sum);
  if (threadIdx.x == 0)
    *total = sum;
}

/// torch 2.11, torch/nn/utils/clip_grad.py: clip_coef = max_norm / (total_norm + 1e-6), which
/// Tensor.__rtruediv__ computes as a reciprocal times max_norm, clamped to 1.
static __global__ void clipFactorKernel(ClipFactorArguments a) {
  const double total = *a.total;
  double wide = a.type == FSDP_NORM_2 ? __dsqrt_rn(total) : total;
  if (a.lossScale) {
    *a.inverseScale = static_cast<float>(1 / static_cast<double>(*a.lossScale));
    wide = wide * static_cast<double>(*a.inverseScale);
  }
  const float norm = static_cast<float>(wide);
  float factor = 1;
  if (const double zero = total - total; a.lossScale && zero != 0)
    factor = static_cast<float>(zero); // NaN, of a total that is not finite
  else if (a.maxNorm > 0)
    factor = __fmul_rn(__frcp_rn(__fadd_rn(norm, 1e-6f)), a.maxNorm);
  *a.clipFactor = factor > 1.f ? 1.f : factor; // unlike fminf, keeps a NaN
  if (a.norm)
    *a.norm = norm;
}

/// Calls launch(type), a constant.
template <typename Launch> static cudaError_t withNormType(fsdp_norm_type type, Launch launch) {
  if (type == FSDP_NORM_1)
    launch(std::integral_constant<fsdp_norm_type, FSDP_NORM_1>());
  else if (type == FSDP_NORM_2)
    launch(std::integral_constant<fsdp_norm_type, FSDP_NORM_2>());
  else
    launch(std::integral_constant<fsdp_norm_type, FSDP_NORM_INF>());
  return cudaGetLastError();
}

cudaError_t fsdp::rt::launchKernel(const PartialNormArguments &a, cudaStream_t stream) {
  if (cudaError_t error = checkArguments(a); error != cudaSuccess || a.elements == 0)
    return error;
  return withElement(a.dtype, [&](auto element) {
    using T = decltype(element);
    return withNormType(a.type, [&](auto type) {
      partialNormKernel<T, type.value>
          <<<static_cast<unsigned>(partialNormBlocks(a.elements)), kKernelThreads, 0, stream>>>(
              static_cast<const T *>(a.gradients),
              vectorElements(a.elements, kWidthOf<T>, a.gradients), a.elements, a.partials);
    });
  });
}

cudaError_t fsdp::rt::launchKernel(const JoinPartialsArguments &a, cudaStream_t stream) {
  if (cudaError_t error = checkArguments(a); error != cudaSuccess)
    return error;
  return withNormType(a.type, [&](auto type) {
    joinPartialsKernel<type.value><<<1, kKernelThreads, 0, stream>>>(a.partials, a.count, a.total);
  });
}

cudaError_t fsdp::rt::launchKernel(const ClipFactorArguments &a, cudaStream_t stream) {
  if (cudaError_t error = checkArguments(a); error != cudaSuccess)
    return error;
  clipFactorKernel<<<1, 1, 0, stream>>>(a);
  return cudaGetLastError();
}
