//===- Values.cuh - Numbers of a dtype known at run time -------*- CUDA -*-===//
//
// All threads take the same branch, and the combinations of the buffers' dtypes need no template
// instances.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_CUDA_KERNELS_VALUES_CUH
#define FSDP_RUNTIME_CUDA_KERNELS_VALUES_CUH

#include "cuda/kernels/Elements.cuh"

namespace fsdp::rt {

template <typename T>
constexpr fsdp_dtype kDtypeOf = std::is_same_v<T, float>  ? FSDP_F32
                                : std::is_same_v<T, Bf16> ? FSDP_BF16
                                                          : FSDP_F16;

/// N elements as loaded from memory, of at most 4 bytes each.
template <int N> struct LoadedValues {
  unsigned words[N];
};

/// A buffer whose dtype is that of one of the types; with one type there is no branch.
template <typename Type, typename... Others> struct Values {
  void *values;
  fsdp_dtype dtype;

  template <int N> __device__ __forceinline__ LoadedValues<N> load(int64_t first) const {
    LoadedValues<N> loaded;
    withType([&](auto type) {
      using T = decltype(type);
      constexpr int kPart = kPartOf<T, N>;
#pragma unroll
      for (int begin = 0; begin < N; begin += kPart) {
        auto part = loadWords<kPart>(static_cast<const T *>(values) + first + begin);
        memcpy(loaded.words + begin * sizeof(T) / sizeof(unsigned), &part, sizeof(part));
      }
    });
    return loaded;
  }
  template <int N>
  __device__ __forceinline__ void convert(const LoadedValues<N> &loaded, float (&to)[N]) const {
    withType([&](auto type) {
      using T = decltype(type);
      T elements[N];
      memcpy(elements, loaded.words, sizeof(elements));
#pragma unroll
      for (int i = 0; i < N; ++i)
        to[i] = toFloat(elements[i]);
    });
  }
  /// Of values that are read again soon.
  template <int N>
  __device__ __forceinline__ void store(int64_t first, const float (&from)[N]) const {
    storeParts(first, from, [](auto *to, const auto &part) { rt::store(to, part); });
  }
  /// Of values that are not read before the next step.
  template <int N>
  __device__ __forceinline__ void storeOnce(int64_t first, const float (&from)[N]) const {
    storeParts(first, from, [](auto *to, const auto &part) { rt::storeOnce(to, part); });
  }

private:
  template <typename, typename...> friend struct Values;

  /// Calls function(T()) with the element type.
  template <typename Function> __device__ __forceinline__ void withType(Function function) const {
    if constexpr (sizeof...(Others) == 0)
      function(Type());
    else if (dtype == kDtypeOf<Type>)
      function(Type());
    else
      Values<Others...>{values, dtype}.withType(function);
  }
  /// Elements of a load or store of at most 16 bytes.
  template <typename T, int N>
  static constexpr int kPartOf = N * sizeof(T) < 16 ? N : 16 / sizeof(T);
  template <int N, typename Store>
  __device__ __forceinline__ void storeParts(int64_t first, const float (&from)[N],
                                             Store store) const {
    withType([&](auto type) {
      using T = decltype(type);
      constexpr int kPart = kPartOf<T, N>;
#pragma unroll
      for (int begin = 0; begin < N; begin += kPart) {
        float part[kPart];
#pragma unroll
        for (int i = 0; i < kPart; ++i)
          part[i] = from[begin + i];
        store(static_cast<T *>(values) + first + begin, part);
      }
    });
  }
};

/// Stands for the copy of parameters that are gathered themselves.
struct NoValues {};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CUDA_KERNELS_VALUES_CUH
