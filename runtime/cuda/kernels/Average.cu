//===- Average.cu - Moving average of the weights -------------------------===//
//
// torch.optim.swa_utils, get_ema_multi_avg_fn(decay), after each update:
//   a = p                              (the first one)
//   a = a + (1 - decay) * (p - a)      (lerp_, from the nearer end: fused)
//
//===----------------------------------------------------------------------===//

#include "cuda/kernels/Elements.cuh"
#include "cuda/kernels/OptimizerFormulas.h"

using namespace fsdp::rt;

template <typename Average, typename Parameter>
static __global__ void __launch_bounds__(kKernelThreads)
    averageKernel(Average *averages, const Parameter *parameters, const OptimizerScalars *scalars,
                  const float *clipFactor, int64_t vectorElements, int64_t elements) {
  if (clipFactor && *clipFactor != *clipFactor)
    return;
  const AverageScalars s = scalars->average;
  const Lerp lerp(s.weight);
  forElements<kWidthOf<Average, Parameter>>(
      vectorElements, elements, [&](auto width, int64_t first) {
        constexpr int kCount = decltype(width)::value;
        float p[kCount], a[kCount];
        load(parameters + first, p);
        // Before the first update the memory may hold anything.
        if (!s.firstStep) {
          load(averages + first, a);
#pragma unroll
          for (int i = 0; i < kCount; ++i)
            p[i] = lerp(a[i], p[i]);
        }
        store(averages + first, p);
      });
}

cudaError_t fsdp::rt::launchKernel(const AverageArguments &a, cudaStream_t stream) {
  if (cudaError_t error = checkArguments(a); error != cudaSuccess || a.elements == 0)
    return error;
  return withElement(a.averageDtype, [&](auto averageElement) {
    return withElement(a.dtype, [&](auto parameterElement) {
      using Average = decltype(averageElement);
      using Parameter = decltype(parameterElement);
      constexpr int kWidth = kWidthOf<Average, Parameter>;
      int64_t blocks = 0;
      if (cudaError_t error = blocksOnDevice(a.elements, kWidth, &blocks); error != cudaSuccess)
        return error;
      averageKernel<<<static_cast<unsigned>(blocks), kKernelThreads, 0, stream>>>(
          static_cast<Average *>(a.average), static_cast<const Parameter *>(a.parameters),
          a.scalars, a.clipFactor, vectorElements(a.elements, kWidth, a.average, a.parameters),
          a.elements);
      return cudaGetLastError();
    });
  });
}
