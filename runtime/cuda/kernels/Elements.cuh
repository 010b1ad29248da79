//===- Elements.cuh - Loops over elements of device memory -----*- CUDA -*-===//
//
// Loads and stores of up to 16 bytes per thread with conversion from and to fp32, the grid-stride
// loop of the kernels, and their launch.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_CUDA_KERNELS_ELEMENTS_CUH
#define FSDP_RUNTIME_CUDA_KERNELS_ELEMENTS_CUH

#include "cuda/kernels/Kernels.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace fsdp::rt {

using Bf16 = __nv_bfloat16;
using F16 = __half;
/// Stands for an element type if there is no such buffer.
struct NoElement {};

static __device__ __forceinline__ float toFloat(float value) { return value; }
static __device__ __forceinline__ float toFloat(Bf16 value) { return __bfloat162float(value); }
static __device__ __forceinline__ float toFloat(F16 value) { return __half2float(value); }

// To the nearest, ties to even.
static __device__ __forceinline__ void fromFloat(float value, float &to) { to = value; }
static __device__ __forceinline__ void fromFloat(float value, Bf16 &to) {
  to = __float2bfloat16_rn(value);
}
static __device__ __forceinline__ void fromFloat(float value, F16 &to) {
  to = __float2half_rn(value);
}

template <int Bytes> struct WordOf;
template <> struct WordOf<2> { using Type = unsigned short; };
template <> struct WordOf<4> { using Type = unsigned; };
template <> struct WordOf<8> { using Type = uint2; };
template <> struct WordOf<16> { using Type = uint4; };

/// Elements of the widest type that fill 16 bytes.
template <typename... Types>
constexpr int kWidthOf = static_cast<int>(16 / std::max({sizeof(Types)...}));

/// N elements as loaded from memory. Their conversion waits for the load, so a kernel loads all
/// words that it needs before it converts one.
template <typename T, int N> using Words = typename WordOf<N * sizeof(T)>::Type;

/// One load; for memory that a step reads once.
template <int N, typename T> __device__ __forceinline__ Words<T, N> loadWords(const T *from) {
  return __ldcs(reinterpret_cast<const Words<T, N> *>(from));
}

template <typename T, int N>
__device__ __forceinline__ void convert(const Words<T, N> &words, float (&values)[N]) {
  T elements[N];
  memcpy(elements, &words, sizeof(words));
#pragma unroll
  for (int i = 0; i < N; ++i)
    values[i] = toFloat(elements[i]);
}

template <typename T, int N>
__device__ __forceinline__ void load(const T *from, float (&values)[N]) {
  convert<T>(loadWords<N>(from), values);
}

template <typename T, int N>
__device__ __forceinline__ typename WordOf<N * sizeof(T)>::Type wordFrom(const float (&values)[N]) {
  T elements[N];
#pragma unroll
  for (int i = 0; i < N; ++i)
    fromFloat(values[i], elements[i]);
  typename WordOf<N * sizeof(T)>::Type word;
  memcpy(&word, elements, sizeof(word));
  return word;
}

/// One store of values that are read again soon.
template <typename T, int N>
__device__ __forceinline__ void store(T *to, const float (&values)[N]) {
  *reinterpret_cast<typename WordOf<N * sizeof(T)>::Type *>(to) = wordFrom<T>(values);
}

/// One store of values that are not read before the next step.
template <typename T, int N>
__device__ __forceinline__ void storeOnce(T *to, const float (&values)[N]) {
  __stcs(reinterpret_cast<typename WordOf<N * sizeof(T)>::Type *>(to), wordFrom<T>(values));
}

/// Calls body(width, first) for all elements, split over the grid's threads: `Width` elements at a
/// time for the first `vectorElements` (a multiple of Width), then one at a time. The width is an
/// integral_constant.
template <int Width, typename Body>
__device__ __forceinline__ void forElements(int64_t vectorElements, int64_t elements, Body body) {
  const int64_t thread = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t threads = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = thread * Width; i < vectorElements; i += threads * Width)
    body(std::integral_constant<int, Width>(), i);
  for (int64_t i = vectorElements + thread; i < elements; i += threads)
    body(std::integral_constant<int, 1>(), i);
}

/// The elements that can be taken `width` at a time: none unless all pointers are aligned.
template <typename... Pointers>
int64_t vectorElements(int64_t elements, int width, Pointers... pointers) {
  bool aligned = ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ...);
  return aligned ? elements / width * width : 0;
}

/// Blocks for an element-wise kernel on the current device.
inline cudaError_t blocksOnDevice(int64_t elements, int width, int64_t *blocks) {
  int device = 0, multiprocessors = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess)
    error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  if (error == cudaSuccess)
    *blocks = elementwiseBlocks(elements, width, multiprocessors);
  return error;
}

/// Calls function(T()) with the element type of `dtype`, one of fp32, bf16 and fp16.
template <typename Function> cudaError_t withElement(fsdp_dtype dtype, Function function) {
  switch (dtype) {
  case FSDP_F32:
    return function(float());
  case FSDP_BF16:
    return function(Bf16());
  case FSDP_F16:
    return function(F16());
  default:
    return cudaErrorInvalidValue;
  }
}

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CUDA_KERNELS_ELEMENTS_CUH
