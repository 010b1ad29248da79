//===- Reduction.cpp - Element-wise reductions in rank order --------------===//

#include "comm/Reduction.h"
#include "DType.h"

#include <c10/util/Half.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <type_traits>

using namespace fsdp::rt;

// Tells the compiler that no iteration reads the results of another.
#if defined(__clang__)
#define FSDP_INDEPENDENT_ITERATIONS _Pragma("clang loop vectorize(assume_safety)")
#else
#define FSDP_INDEPENDENT_ITERATIONS _Pragma("GCC ivdep")
#endif

namespace {

/// Arithmetic of elements of T: in the type `Wide`, to which widen() converts exactly, and from
/// which narrow() rounds.
template <typename T> struct Element {
  using Wide = T;
  static T widen(T value) { return value; }
  static T narrow(T value) { return value; }
};

template <> struct Element<c10::Half> {
  using Wide = float;
  static float widen(c10::Half value) { return value; }
  static c10::Half narrow(float value) { return value; }
};

// c10::BFloat16 is a struct whose conversions branch, so loops over it are not vectorized.
enum class BFloat16 : uint16_t {};
template <> struct Element<BFloat16> {
  using Wide = float;
  static float widen(BFloat16 value) {
    return std::bit_cast<float>(static_cast<uint32_t>(value) << 16);
  }
  /// Rounds to nearest, ties to even, as c10 does.
  static BFloat16 narrow(float value) {
    uint32_t bits = std::bit_cast<uint32_t>(value);
    uint32_t rounded = (bits + ((bits >> 16) & 1) + 0x7FFF) >> 16;
    uint32_t ifNan = -static_cast<uint32_t>((bits & 0x7FFFFFFF) > 0x7F800000);
    return static_cast<BFloat16>((rounded & ~ifNan) | (0x7FC0 & ifNan));
  }
};

struct Sum {
  template <typename T> static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      // Unsigned 64 bits, so that overflow wraps, as in torch.
      return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    } else {
      return Element<T>::narrow(Element<T>::widen(a) + Element<T>::widen(b));
    }
  }
};

struct Max {
  template <typename T> static T apply(T a, T b) {
    auto wideA = Element<T>::widen(a), wideB = Element<T>::widen(b);
    return (wideA > wideB || wideA != wideA) ? a : b;
  }
};

template <typename T> T divided(T a, double divisor) {
  if constexpr (std::is_integral_v<T>)
    return a;
  else
    return Element<T>::narrow(Element<T>::widen(a) /
                              static_cast<typename Element<T>::Wide>(divisor));
}

// Partial results of a portion stay in the first-level cache.
constexpr size_t kPieceBytes = 8192;

// Not inlined, since inlining loses __restrict, and with it vectorization.
template <typename T, typename Op>
[[gnu::noinline]] void accumulate(T *__restrict partial, const T *__restrict next, size_t count) {
  for (size_t i = 0; i < count; ++i)
    partial[i] = Op::apply(partial[i], next[i]);
}

template <typename T> void divideAll(T *values, size_t count, double divisor) {
  for (size_t i = 0; i < count; ++i)
    values[i] = divided(values[i], divisor);
}

template <typename T> void multiplyAll(T *values, size_t count, double factor) {
  if constexpr (!std::is_integral_v<T>) {
    const auto wide = static_cast<typename Element<T>::Wide>(factor);
    for (size_t i = 0; i < count; ++i)
      values[i] = Element<T>::narrow(Element<T>::widen(values[i]) * wide);
  }
}

template <typename T, typename Op, bool Divide>
void reduceTyped(std::span<const std::byte *const> inputs, std::byte *output, size_t count) {
  auto source = [&](size_t i) { return reinterpret_cast<const T *>(inputs[i]); };
  T *out = reinterpret_cast<T *>(output);
  unsigned size = static_cast<unsigned>(inputs.size());
  // Element i of the output depends only on element i of the inputs, so loops may be vectorized
  // even if the output is one of the inputs.
  if (size == 2) {
    const T *a = source(0), *b = source(1);
    FSDP_INDEPENDENT_ITERATIONS
    for (size_t i = 0; i < count; ++i) {
      T sum = Op::apply(a[i], b[i]);
      out[i] = Divide ? divided(sum, 2) : sum;
    }
    return;
  }
  constexpr size_t kPiece = kPieceBytes / sizeof(T);
  alignas(64) T partial[kPiece];
  for (size_t first = 0; first < count; first += kPiece) {
    size_t length = std::min(kPiece, count - first);
    std::memcpy(partial, source(0) + first, length * sizeof(T));
    for (size_t input = 1; input < inputs.size(); ++input)
      accumulate<T, Op>(partial, source(input) + first, length);
    if constexpr (Divide)
      divideAll(partial, length, size);
    std::memcpy(out + first, partial, length * sizeof(T));
  }
}

template <typename T>
void reduceAs(std::span<const std::byte *const> inputs, std::byte *output, size_t count,
              ReduceOp op) {
  switch (op) {
  case ReduceOp::Sum:
    return reduceTyped<T, Sum, false>(inputs, output, count);
  case ReduceOp::Average:
    return reduceTyped<T, Sum, true>(inputs, output, count);
  case ReduceOp::Max:
    return reduceTyped<T, Max, false>(inputs, output, count);
  }
}

/// Calls `function` with a value of the C++ type of `dtype`.
template <typename Function> void withType(fsdp_dtype dtype, Function &&function) {
  switch (dtype) {
  case FSDP_U8:
    return function(uint8_t());
  case FSDP_I8:
    return function(int8_t());
  case FSDP_I32:
    return function(int32_t());
  case FSDP_I64:
    return function(int64_t());
  case FSDP_F16:
    return function(c10::Half());
  case FSDP_F32:
    return function(float());
  case FSDP_F64:
    return function(double());
  case FSDP_BF16:
    return function(BFloat16());
  case FSDP_I16:
  case FSDP_BOOL:
  case FSDP_F8E5M2:
  case FSDP_F8E4M3:
  case FSDP_U64:
  case FSDP_C64:
  case FSDP_C128:
    break;
  }
  assert(false && "checkReduction() accepts no such type");
}

} // namespace

const char *fsdp::rt::reduceOpName(ReduceOp op) {
  switch (op) {
  case ReduceOp::Sum:
    return "sum";
  case ReduceOp::Average:
    return "average";
  case ReduceOp::Max:
    return "max";
  }
  return "?";
}

Status fsdp::rt::checkReduction(fsdp_dtype dtype, ReduceOp op) {
  bool floating = dtype == FSDP_F16 || dtype == FSDP_F32 || dtype == FSDP_F64 || dtype == FSDP_BF16;
  bool integral = dtype == FSDP_U8 || dtype == FSDP_I8 || dtype == FSDP_I32 || dtype == FSDP_I64;
  if (floating || (integral && op != ReduceOp::Average))
    return {};
  return Status::error(std::string("no ") + reduceOpName(op) + " of " + dtypeName(dtype) +
                       " between ranks: sum and max take u8, i8, i32, i64 and "
                       "floating-point types, average takes floating-point types");
}

void fsdp::rt::reduceInOrder(std::span<const std::byte *const> inputs, std::byte *output,
                             size_t count, fsdp_dtype dtype, ReduceOp op) {
  if (inputs.size() == 1) {
    if (count && output != inputs[0])
      std::memmove(output, inputs[0], count * elementBytes(dtype));
    return;
  }
  withType(dtype, [&](auto type) { reduceAs<decltype(type)>(inputs, output, count, op); });
}

void fsdp::rt::divideInPlace(std::byte *data, size_t count, fsdp_dtype dtype, double divisor) {
  withType(dtype,
           [&](auto type) { divideAll(reinterpret_cast<decltype(type) *>(data), count, divisor); });
}

void fsdp::rt::multiplyInPlace(std::byte *data, size_t count, fsdp_dtype dtype, double factor) {
  withType(dtype, [&](auto type) {
    multiplyAll(reinterpret_cast<decltype(type) *>(data), count, factor);
  });
}
