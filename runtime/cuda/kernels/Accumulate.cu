//===- Accumulate.cu - Scaled cast and accumulate -------------------------===//

#include "cuda/kernels/Elements.cuh"

using namespace fsdp::rt;

template <typename To, typename From>
static __global__ void __launch_bounds__(kKernelThreads)
    accumulateKernel(To *to, float toScale, const From *from, float fromScale,
                     int64_t vectorElements, int64_t elements) {
  forElements<kWidthOf<To, From>>(vectorElements, elements, [&](auto width, int64_t first) {
    constexpr int kCount = decltype(width)::value;
    float values[kCount];
    load(from + first, values);
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      values[i] = __fmul_rn(values[i], fromScale);
    // With toScale 0 the old contents are not read, since they may be NaN.
    if (toScale != 0) {
      float sums[kCount];
      load(to + first, sums);
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        values[i] = __fmaf_rn(sums[i], toScale, values[i]);
    }
    store(to + first, values);
  });
}

cudaError_t fsdp::rt::launchKernel(const AccumulateArguments &a, cudaStream_t stream) {
  if (cudaError_t error = checkArguments(a); error != cudaSuccess || a.elements == 0)
    return error;
  return withElement(a.toDtype, [&](auto toElement) {
    return withElement(a.fromDtype, [&](auto fromElement) {
      using To = decltype(toElement);
      using From = decltype(fromElement);
      constexpr int kWidth = kWidthOf<To, From>;
      int64_t blocks = 0;
      if (cudaError_t error = blocksOnDevice(a.elements, kWidth, &blocks); error != cudaSuccess)
        return error;
      accumulateKernel<<<static_cast<unsigned>(blocks), kKernelThreads, 0, stream>>>(
          static_cast<To *>(a.to), a.toScale, static_cast<const From *>(a.from), a.fromScale,
          vectorElements(a.elements, kWidth, a.to, a.from), a.elements);
      return cudaGetLastError();
    });
  });
}
