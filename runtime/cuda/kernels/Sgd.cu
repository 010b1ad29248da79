//===- Sgd.cu - SGD on a flat shard ---------------------------------------===//
//
// torch 2.11, torch/optim/sgd.py, _single_tensor_sgd:
//   g = g + weightDecay * p                    (Tensor.add with alpha: fused)
//   b = momentum * b + (1 - dampening) * g     (mul_, then add_ with alpha: fused); first g
//   p = p - lr * b                             (Tensor.add_ with alpha: fused)
//   Nesterov: for b in the last line g + momentum * b       (Tensor.add with alpha: fused)
// In fp32 equal to torch's on the CPU bit for bit. Shards of other dtypes:
// OptimizerUpdateArguments.
//
//===----------------------------------------------------------------------===//

#include "cuda/kernels/OptimizerUpdate.cuh"
#include "cuda/kernels/State.cuh"

using namespace fsdp::rt;

template <typename Parameter, typename Gradient, typename Gathered>
static __global__ void __launch_bounds__(kKernelThreads)
    sgdKernel(OptimizerUpdateArguments arguments, int64_t vectorElements) {
  constexpr int kWidth = kWidthOf<Parameter>;
  const SgdScalars s = arguments.scalars->sgd;
  const Clip<Parameter> clip(arguments);
  const auto *gradients = static_cast<const Gradient *>(arguments.gradients);
  auto *parameters = static_cast<Parameter *>(arguments.parameters);
  const State<Parameter> momentum(arguments, 0);

  forElements<kWidth>(vectorElements, arguments.elements, [&](auto width, int64_t first) {
    constexpr int kCount = decltype(width)::value;
    const auto loadedP = loadWords<kCount>(parameters + first);
    const auto loadedG = loadWords<kCount>(gradients + first);
    const bool readsMomentum = s.hasMomentum && !s.firstStep;
    typename State<Parameter>::template Loaded<kCount> loadedB;
    if (readsMomentum)
      loadedB = momentum.template load<kCount>(first);
    float p[kCount], g[kCount];
    convert<Parameter>(loadedP, p);
    convert<Gradient>(loadedG, g);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      g[i] = clip(g[i]);
      if (s.weightDecay != 0)
        g[i] = __fmaf_rn(s.weightDecay, p[i], g[i]);
    }
    if (s.hasMomentum) {
      float b[kCount];
      if (readsMomentum)
        momentum.convert(loadedB, b);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        b[i] = s.firstStep ? g[i]
                           : __fmaf_rn(s.gradientWeight, g[i], __fmul_rn(b[i], s.momentum));
        g[i] = s.nesterov ? __fmaf_rn(s.momentum, b[i], g[i]) : b[i];
      }
      momentum.store(first, b);
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      p[i] = __fmaf_rn(s.negativeLearningRate, g[i], p[i]);
    storeParameters<Gathered>(parameters, arguments.gathered, first, p);
  });
}

cudaError_t fsdp::rt::launchSgd(const OptimizerUpdateArguments &a, cudaStream_t stream) {
  return withUpdateTypes(a, [&](auto parameter, auto gradient, auto gathered) {
    constexpr int kWidth = kWidthOf<decltype(parameter)>;
    int64_t blocks = 0;
    if (cudaError_t error = blocksOnDevice(a.elements, kWidth, &blocks); error != cudaSuccess)
      return error;
    int64_t vectors =
        vectorElements(a.elements, kWidth, a.parameters, a.gradients, a.state[0], a.gathered);
    sgdKernel<decltype(parameter), decltype(gradient), decltype(gathered)>
        <<<static_cast<unsigned>(blocks), kKernelThreads, 0, stream>>>(a, vectors);
    return cudaGetLastError();
  });
}
