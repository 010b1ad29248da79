//===- Adam.cu - Adam and AdamW on a flat shard ---------------------------===//
//
// torch 2.11, torch/optim/adam.py, _single_tensor_adam (not capturable):
//   Adam:  g = g + weightDecay * p             (Tensor.add with alpha: fused)
//   AdamW: p = p * (1 - lr * weightDecay)
//   m = m + (1 - beta1) * (g - m)              (lerp_, from the nearer end: fused)
//   v = v * beta2 + ((1 - beta2) * g) * g      (mul_, then addcmul_: fused)
//   AMSGrad: v below is the largest v so far  (maximum, which keeps a NaN)
//   p = p + (-stepSize * m) / (sqrt(v) / sqrt(1 - beta2^t) + eps)      (addcdiv_)
// In fp32 equal to torch's on the CPU bit for bit, except that the square root is correctly
// rounded, where torch's may be 1 ulp off. Shards of other dtypes: OptimizerUpdateArguments.
//
//===----------------------------------------------------------------------===//

#include "cuda/kernels/Division.cuh"
#include "cuda/kernels/OptimizerUpdate.cuh"
#include "cuda/kernels/State.cuh"

using namespace fsdp::rt;

/// Blocks that a multiprocessor runs at once (occupancy): as many as the registers allow without
/// spills.
template <typename Parameter, bool amsgrad>
constexpr int kBlocks = sizeof(Parameter) == 4 ? (amsgrad ? 4 : 5) : (amsgrad ? 2 : 3);

template <typename Parameter, typename Gradient, typename Gathered, bool amsgrad>
static __global__ void __launch_bounds__(kKernelThreads, kBlocks<Parameter, amsgrad>)
    adamKernel(OptimizerUpdateArguments arguments, int64_t vectorElements) {
  constexpr int kWidth = kWidthOf<Parameter>;
  const AdamScalars s = arguments.scalars->adam;
  const Clip<Parameter> clip(arguments);
  const bool fromStart = fabsf(s.lerpWeight) < 0.5f;
  const float coefficient = fromStart ? s.lerpWeight : __fsub_rn(s.lerpWeight, 1.f);
  const auto *gradients = static_cast<const Gradient *>(arguments.gradients);
  auto *parameters = static_cast<Parameter *>(arguments.parameters);
  const State<Parameter> moment1(arguments, 0), moment2(arguments, 1), largestMoment2(arguments, 2);
  const auto correction2 = RootDivisor::of(s.sqrtCorrection2);

  forElements<kWidth>(vectorElements, arguments.elements, [&](auto width, int64_t first) {
    constexpr int kCount = decltype(width)::value;
    const auto loadedP = loadWords<kCount>(parameters + first);
    const auto loadedG = loadWords<kCount>(gradients + first);
    const auto loadedM = moment1.template load<kCount>(first);
    const auto loadedV = moment2.template load<kCount>(first);
    float p[kCount], g[kCount], m[kCount], v[kCount], largest[kCount];
    if constexpr (amsgrad)
      largestMoment2.convert(largestMoment2.template load<kCount>(first), largest);
    convert<Parameter>(loadedP, p);
    convert<Gradient>(loadedG, g);
    moment1.convert(loadedM, m);
    moment2.convert(loadedV, v);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      g[i] = clip(g[i]);
      if (s.weightDecay != 0)
        g[i] = __fmaf_rn(s.weightDecay, p[i], g[i]);
      m[i] = __fmaf_rn(coefficient, __fsub_rn(g[i], m[i]), fromStart ? m[i] : g[i]);
      v[i] = __fmaf_rn(__fmul_rn(s.oneMinusBeta2, g[i]), g[i], __fmul_rn(v[i], s.beta2));
      if constexpr (amsgrad)
        largest[i] = largest[i] != largest[i] || largest[i] >= v[i] ? largest[i] : v[i];
      const float square = amsgrad ? largest[i] : v[i];
      const float denominator = __fadd_rn(correction2.quotientOf(rootOf(square)), s.eps);
      p[i] = __fadd_rn(__fmul_rn(p[i], s.decay),
                       quotientOf(__fmul_rn(s.negativeStepSize, m[i]), denominator));
    }
    moment1.store(first, m);
    moment2.store(first, v);
    if constexpr (amsgrad)
      largestMoment2.store(first, largest);
    storeParameters<Gathered>(parameters, arguments.gathered, first, p);
  });
}

cudaError_t fsdp::rt::launchAdam(const OptimizerUpdateArguments &a, cudaStream_t stream) {
  return withUpdateTypes(a, [&](auto parameter, auto gradient, auto gathered) {
    constexpr int kWidth = kWidthOf<decltype(parameter)>;
    int64_t blocks = 0;
    if (cudaError_t error = blocksOnDevice(a.elements, kWidth, &blocks); error != cudaSuccess)
      return error;
    int64_t vectors = vectorElements(a.elements, kWidth, a.parameters, a.gradients, a.state[0],
                                     a.state[1], a.state[2], a.gathered);
    auto launch = [&](auto amsgrad) {
      adamKernel<decltype(parameter), decltype(gradient), decltype(gathered), amsgrad.value>
          <<<static_cast<unsigned>(blocks), kKernelThreads, 0, stream>>>(a, vectors);
    };
    a.state[2] ? launch(std::true_type()) : launch(std::false_type());
    return cudaGetLastError();
  });
}
