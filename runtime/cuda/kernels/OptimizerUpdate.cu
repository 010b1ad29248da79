//===- OptimizerUpdate.cu - The optimizers' updates of a flat shard -------===//
//
// One loop for all optimizers: it loads an element's values, clips the gradient, applies the
// formula (OptimizerFormulas.h) in fp32 and stores the values. In fp32 the results are those of
// torch's operators on a CPU bit for bit, except that square roots are correctly rounded, where
// torch's may be 1 ulp off. Shards of other dtypes: OptimizerUpdateArguments.
//
//===----------------------------------------------------------------------===//

#include "cuda/kernels/Division.cuh"
#include "cuda/kernels/OptimizerFormulas.h"
#include "cuda/kernels/Values.cuh"

using namespace fsdp::rt;

namespace {
/// The factors of the gradients: see OptimizerUpdateArguments::stateDtype.
template <typename Parameter> struct Clip {
  float factor, inverseScale;
  bool isRounded = false;

  __device__ explicit Clip(const OptimizerUpdateArguments &arguments)
      : factor(arguments.clipFactor ? *arguments.clipFactor : 1.f),
        inverseScale(arguments.inverseScale ? *arguments.inverseScale : 1.f) {
    if constexpr (!std::is_same_v<Parameter, float>) {
      for (int i = 0; i < FSDP_MAX_STATES; ++i)
        isRounded |= arguments.state[i] && arguments.stateDtype[i] != arguments.dtype;
      if (isRounded)
        factor = rounded(factor);
    }
    factor *= arguments.sign;
  }
  /// `limit`: of the gradient's absolute value; read from the arguments, it needs no register.
  __device__ __forceinline__ float operator()(float gradient, float limit) const {
    gradient = gradient * inverseScale;
    if constexpr (!std::is_same_v<Parameter, float>)
      gradient = rounded(gradient); // exact without a loss scale
    gradient = gradient < -limit ? -limit : gradient > limit ? limit : gradient;
    const float clipped = gradient * factor;
    if constexpr (!std::is_same_v<Parameter, float>)
      if (isRounded)
        return rounded(clipped);
    return clipped;
  }

private:
  /// `value` rounded to the parameters' type.
  static __device__ __forceinline__ float rounded(float value) {
    Parameter narrow;
    fromFloat(value, narrow);
    return toFloat(narrow);
  }
};

/// State is fp32, bf16, or of the parameters' type.
template <typename Parameter>
using State = std::conditional_t<std::is_same_v<Parameter, F16>, Values<float, Bf16, F16>,
                                 Values<float, Bf16>>;
using AnyValues = Values<float, Bf16, F16>;

/// True for optimizers that have instances for the usual dtypes of gradients and copies.
template <typename Formula> constexpr bool kHasUsualInstances = false;
template <bool momentum> constexpr bool kHasUsualInstances<SgdFormula<DeviceMath, momentum>> = true;
template <bool amsgrad> constexpr bool kHasUsualInstances<AdamFormula<DeviceMath, amsgrad>> = true;
} // namespace

/// Blocks that a multiprocessor runs at once (occupancy), by the number of states: as many as the
/// registers allow without spills. Branches by dtypes take more of them.
template <typename Formula, typename Parameter, typename Gathered>
constexpr int blocksPerMultiprocessor() {
  const unsigned states = Formula::kStates;
  const bool hasThree = states == 0b111, hasTwo = !hasThree && (states & (states - 1)) != 0;
  if (sizeof(Parameter) != 4)
    return hasThree ? 2 : hasTwo ? 3 : 4;
  return (hasThree ? 4 : hasTwo ? 5 : 6) - std::is_same_v<Gathered, AnyValues>;
}

template <typename Formula, typename Parameter, typename Gradients, typename Gathered>
static __global__ void __launch_bounds__(kKernelThreads,
                                         blocksPerMultiprocessor<Formula, Parameter, Gathered>())
    updateKernel(OptimizerUpdateArguments arguments, int64_t vectorElements) {
  auto *parameters = static_cast<Parameter *>(arguments.parameters);
  if (arguments.inverseScale && *arguments.clipFactor != *arguments.clipFactor) {
    // A store to the host reads the copy.
    if constexpr (!std::is_same_v<Gathered, NoValues>)
      if (arguments.gathered)
        forElements<kWidthOf<Parameter>>(
            vectorElements, arguments.elements, [&](auto width, int64_t first) {
              float p[decltype(width)::value];
              load(parameters + first, p);
              Gathered{arguments.gathered, arguments.gatheredDtype}.store(first, p);
            });
    return;
  }
  const Formula formula(*arguments.scalars);
  const Clip<Parameter> clip(arguments);
  const Gradients gradients{const_cast<void *>(arguments.gradients), arguments.gradientDtype};
  const State<Parameter> states[FSDP_MAX_STATES] = {{arguments.state[0], arguments.stateDtype[0]},
                                                    {arguments.state[1], arguments.stateDtype[1]},
                                                    {arguments.state[2], arguments.stateDtype[2]}};

  // Unrolled: the states of the optimizer are known here.
  auto forStates = [](auto function) {
#pragma unroll
    for (int k = 0; k < FSDP_MAX_STATES; ++k)
      if (Formula::kStates >> k & 1)
        function(k);
  };

  forElements<kWidthOf<Parameter>>(
      vectorElements, arguments.elements, [&](auto width, int64_t first) {
        constexpr int kCount = decltype(width)::value;
        const auto loadedP = loadWords<kCount>(parameters + first);
        const auto loadedG = gradients.template load<kCount>(first);
        LoadedValues<kCount> loaded[FSDP_MAX_STATES];
        forStates([&](int k) { loaded[k] = states[k].template load<kCount>(first); });
        float p[kCount], g[kCount], state[FSDP_MAX_STATES][kCount];
        convert<Parameter>(loadedP, p);
        gradients.convert(loadedG, g);
        forStates([&](int k) { states[k].convert(loaded[k], state[k]); });
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
          ElementState own = {};
          forStates([&](int k) { own[k] = state[k][i]; });
          formula(p[i], clip(g[i], arguments.clipValue), own);
          forStates([&](int k) { state[k][i] = own[k]; });
        }
        forStates([&](int k) { states[k].storeOnce(first, state[k]); });
        storeOnce(parameters + first, p);
        if constexpr (!std::is_same_v<Gathered, NoValues>)
          if (!std::is_same_v<Gathered, AnyValues> || arguments.gathered)
            Gathered{arguments.gathered, arguments.gatheredDtype}.store(first, p);
      });
}

template <typename Formula, typename Parameter, typename Gradients = Values<Parameter>,
          typename Gathered = NoValues>
static cudaError_t launch(const OptimizerUpdateArguments &a, cudaStream_t stream) {
  constexpr int kWidth = kWidthOf<Parameter>;
  int64_t blocks = 0;
  if (cudaError_t error = blocksOnDevice(a.elements, kWidth, &blocks); error != cudaSuccess)
    return error;
  int64_t vectors = vectorElements(a.elements, kWidth, a.parameters, a.gradients, a.state[0],
                                   a.state[1], a.state[2], a.gathered);
  updateKernel<Formula, Parameter, Gradients, Gathered>
      <<<static_cast<unsigned>(blocks), kKernelThreads, 0, stream>>>(a, vectors);
  return cudaGetLastError();
}

/// The update of an fp32 shard.
template <typename Formula>
static cudaError_t launchFloat(const OptimizerUpdateArguments &a, cudaStream_t stream) {
  if constexpr (kHasUsualInstances<Formula>) {
    const bool copies = a.gathered && a.gatheredDtype == FSDP_BF16;
    if (copies || !a.gathered) {
      if (a.gradientDtype == FSDP_F32)
        return copies ? launch<Formula, float, Values<float>, Values<Bf16>>(a, stream)
                      : launch<Formula, float, Values<float>>(a, stream);
      if (a.gradientDtype == FSDP_BF16)
        return copies ? launch<Formula, float, Values<Bf16>, Values<Bf16>>(a, stream)
                      : launch<Formula, float, Values<Bf16>>(a, stream);
    }
  }
  return launch<Formula, float, AnyValues, AnyValues>(a, stream);
}

cudaError_t fsdp::rt::launchKernel(const OptimizerUpdateArguments &a, cudaStream_t stream) {
  if (cudaError_t error = checkArguments(a); error != cudaSuccess || a.elements == 0)
    return error;
  unsigned states = 0;
  for (int i = 0; i < FSDP_MAX_STATES; ++i)
    states |= unsigned(a.state[i] != nullptr) << i;
  return withFormula<DeviceMath>(a.kind, states, [&](auto type) {
    using Formula = typename decltype(type)::Type;
    return a.dtype == FSDP_BF16  ? launch<Formula, Bf16>(a, stream)
           : a.dtype == FSDP_F16 ? launch<Formula, F16>(a, stream)
                                 : launchFloat<Formula>(a, stream);
  });
}
