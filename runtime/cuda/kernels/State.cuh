//===- State.cuh - Optimizer state of a dtype of its own -------*- CUDA -*-===//
//
// The dtype of each state is a run-time value: all threads take the same branch, and the
// combinations of three states and three dtypes need no template instances.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_CUDA_KERNELS_STATE_CUH
#define FSDP_RUNTIME_CUDA_KERNELS_STATE_CUH

#include "cuda/kernels/Elements.cuh"

namespace fsdp::rt {

/// One state of the optimizer.
template <typename Parameter> struct State {
  void *values;
  fsdp_dtype dtype; // fp32, bf16, or the parameters'

  __device__ State(const OptimizerUpdateArguments &arguments, int index)
      : values(arguments.state[index]), dtype(arguments.stateDtype[index]) {}

  /// N elements as loaded from memory, of at most 4 bytes each.
  template <int N> struct Loaded {
    unsigned words[N];
  };
  template <int N> __device__ __forceinline__ Loaded<N> load(int64_t first) const {
    Loaded<N> loaded;
    if (dtype == FSDP_F32) {
      // fp32 state for the narrow parameters in 16 bytes takes two 16-byte words.
      constexpr int kPart = N < 4 ? N : 4;
#pragma unroll
      for (int begin = 0; begin < N; begin += kPart) {
        auto part = loadWords<kPart>(static_cast<const float *>(values) + first + begin);
        memcpy(loaded.words + begin, &part, sizeof(part));
      }
    } else {
      auto all = loadWords<N>(static_cast<const Bf16 *>(values) + first);
      memcpy(loaded.words, &all, sizeof(all));
    }
    return loaded;
  }
  template <int N>
  __device__ __forceinline__ void convert(const Loaded<N> &loaded, float (&to)[N]) const {
    if (dtype == FSDP_F32)
      convertAs<float>(loaded, to);
    else if (dtype == FSDP_BF16)
      convertAs<Bf16>(loaded, to);
    else if constexpr (std::is_same_v<Parameter, F16>)
      convertAs<F16>(loaded, to);
  }
  template <int N>
  __device__ __forceinline__ void store(int64_t first, const float (&from)[N]) const {
    if (dtype == FSDP_F32)
      storeParts(static_cast<float *>(values) + first, from);
    else if (dtype == FSDP_BF16)
      storeOnce(static_cast<Bf16 *>(values) + first, from);
    else if constexpr (std::is_same_v<Parameter, F16>)
      storeOnce(static_cast<F16 *>(values) + first, from);
  }

private:
  template <typename T, int N>
  static __device__ __forceinline__ void convertAs(const Loaded<N> &loaded, float (&to)[N]) {
    T elements[N];
    memcpy(elements, loaded.words, sizeof(elements));
#pragma unroll
    for (int i = 0; i < N; ++i)
      to[i] = toFloat(elements[i]);
  }
  template <int N>
  static __device__ __forceinline__ void storeParts(float *to, const float (&from)[N]) {
    constexpr int kPart = N < 4 ? N : 4;
#pragma unroll
    for (int begin = 0; begin < N; begin += kPart) {
      float part[kPart];
#pragma unroll
      for (int i = 0; i < kPart; ++i)
        part[i] = from[begin + i];
      storeOnce(to + begin, part);
    }
  }
};

/// `value` rounded to T.
template <typename T> __device__ __forceinline__ float rounded(float value) {
  T narrow;
  fromFloat(value, narrow);
  return toFloat(narrow);
}

/// The factor of the gradients: see OptimizerUpdateArguments::stateDtype.
template <typename Parameter> struct Clip {
  float factor;
  bool isRounded = false;

  __device__ explicit Clip(const OptimizerUpdateArguments &arguments)
      : factor(arguments.clipFactor ? *arguments.clipFactor : 1.f) {
    if constexpr (!std::is_same_v<Parameter, float>) {
      for (int i = 0; i < FSDP_MAX_STATES; ++i)
        isRounded |= arguments.state[i] && arguments.stateDtype[i] != arguments.dtype;
      if (isRounded)
        factor = rounded<Parameter>(factor);
    }
    factor *= arguments.sign;
  }
  __device__ __forceinline__ float operator()(float gradient) const {
    const float clipped = __fmul_rn(gradient, factor);
    if constexpr (!std::is_same_v<Parameter, float>)
      if (isRounded)
        return rounded<Parameter>(clipped);
    return clipped;
  }
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CUDA_KERNELS_STATE_CUH
