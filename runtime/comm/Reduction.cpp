//===- Reduction.cpp - Element-wise reductions in rank order --------------===//

#include "comm/Reduction.h"
#include "plan/DType.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <type_traits>

using namespace fsdp::rt;

namespace {

// `Wide` is the type in which one operation on T is computed, before it is rounded to T.
template <typename T> struct Wide {
  using type = T;
};
template <> struct Wide<c10::BFloat16> {
  using type = float;
};
template <> struct Wide<c10::Half> {
  using type = float;
};

struct Sum {
  template <typename T> static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      // Through 64 bits without a sign: overflow wraps, as in torch.
      return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    } else {
      using W = typename Wide<T>::type;
      return static_cast<T>(static_cast<W>(a) + static_cast<W>(b));
    }
  }
};

struct Max {
  template <typename T> static T apply(T a, T b) {
    using W = typename Wide<T>::type;
    W wideA = static_cast<W>(a), wideB = static_cast<W>(b);
    return (wideA > wideB || wideA != wideA) ? a : b;
  }
};

template <typename T> T divided(T a, unsigned divisor) {
  using W = typename Wide<T>::type;
  if constexpr (std::is_integral_v<T>)
    return a;
  else
    return static_cast<T>(static_cast<W>(a) / static_cast<W>(divisor));
}

// Partial results of a piece stay in the first-level cache.
constexpr size_t kPieceBytes = 8192;

template <typename T, typename Op, bool Divide>
void reduceTyped(std::span<const std::byte *const> inputs, std::byte *output, size_t count) {
  auto source = [&](size_t i) { return reinterpret_cast<const T *>(inputs[i]); };
  T *out = reinterpret_cast<T *>(output);
  unsigned size = static_cast<unsigned>(inputs.size());
  // Element i of the output depends on element i of the inputs alone, so that loops may run in
  // vectors even where the output is one of the inputs.
  if (size == 2) {
    const T *a = source(0), *b = source(1);
#pragma GCC ivdep
    for (size_t i = 0; i < count; ++i) {
      T sum = Op::apply(a[i], b[i]);
      out[i] = Divide ? divided(sum, 2) : sum;
    }
    return;
  }
  constexpr size_t kPiece = kPieceBytes / sizeof(T);
  alignas(64) std::byte storage[kPieceBytes];
  T *partial = reinterpret_cast<T *>(storage);
  for (size_t first = 0; first < count; first += kPiece) {
    size_t length = std::min(kPiece, count - first);
    std::memcpy(storage, source(0) + first, length * sizeof(T));
    for (size_t input = 1; input < inputs.size(); ++input) {
      const T *next = source(input) + first;
#pragma GCC ivdep
      for (size_t i = 0; i < length; ++i)
        partial[i] = Op::apply(partial[i], next[i]);
    }
    if constexpr (Divide) {
#pragma GCC ivdep
      for (size_t i = 0; i < length; ++i)
        partial[i] = divided(partial[i], size);
    }
    std::memcpy(out + first, storage, length * sizeof(T));
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

template <typename T> void divideAs(std::byte *data, size_t count, unsigned divisor) {
  T *values = reinterpret_cast<T *>(data);
  for (size_t i = 0; i < count; ++i)
    values[i] = divided(values[i], divisor);
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
    return function(c10::BFloat16());
  case FSDP_I16:
  case FSDP_BOOL:
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

void fsdp::rt::divideInPlace(std::byte *data, size_t count, fsdp_dtype dtype, unsigned divisor) {
  withType(dtype, [&](auto type) { divideAs<decltype(type)>(data, count, divisor); });
}
