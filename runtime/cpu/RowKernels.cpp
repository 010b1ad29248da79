//===- RowKernels.cpp - Rows of fp32 numbers for AVX-512 -------------------===//

#include "cpu/RowKernels.h"
#include "cpu/Avx512Exp.h"

#include <algorithm>
#include <cstring>

using namespace fsdp::rt;

#if defined(__x86_64__)
bool fsdp::rt::areRowKernelsSupported() { return hasAvx512(); }

//===----------------------------------------------------------------------===//
// Element by element
//===----------------------------------------------------------------------===//

namespace {
struct Multiply {
  FSDP_AVX512 FSDP_INLINE Vector apply(Vector a, Vector b) { return _mm512_mul_ps(a, b); }
};
struct Add {
  FSDP_AVX512 FSDP_INLINE Vector apply(Vector a, Vector b) { return _mm512_add_ps(a, b); }
};
struct Divide {
  FSDP_AVX512 FSDP_INLINE Vector apply(Vector a, Vector b) { return _mm512_div_ps(a, b); }
};
struct Negate {
  FSDP_AVX512 FSDP_INLINE Vector apply(Vector a) { return _mm512_xor_ps(a, vectorOf(-0.0f)); }
};
struct Copy {
  FSDP_AVX512 FSDP_INLINE Vector apply(Vector a) { return a; }
};
struct Square {
  FSDP_AVX512 FSDP_INLINE Vector apply(Vector a) { return _mm512_mul_ps(a, a); }
};
struct Cube {
  FSDP_AVX512 FSDP_INLINE Vector apply(Vector a) { return _mm512_mul_ps(_mm512_mul_ps(a, a), a); }
};
struct ReciprocalRoot {
  FSDP_AVX512 FSDP_INLINE Vector apply(Vector a) {
    return _mm512_div_ps(vectorOf(1), _mm512_sqrt_ps(a));
  }
};
/// 1 + exp(-x)
FSDP_AVX512 FSDP_INLINE Vector onePlusExp(Vector x) {
  return _mm512_add_ps(vectorOf(1), sleefExp(Negate::apply(x)));
}
struct Silu {
  FSDP_AVX512 FSDP_INLINE Vector apply(Vector x) { return _mm512_div_ps(x, onePlusExp(x)); }
};
struct SiluBackward {
  FSDP_AVX512 FSDP_INLINE Vector apply(Vector gradient, Vector x) {
    Vector sigmoid = _mm512_div_ps(vectorOf(1), onePlusExp(x));
    Vector slope = _mm512_fmadd_ps(x, _mm512_sub_ps(vectorOf(1), sigmoid), vectorOf(1));
    return _mm512_mul_ps(_mm512_mul_ps(gradient, sigmoid), slope);
  }
};
} // namespace

namespace {
/// What is where an operator's operand should be.
enum class From { Row, FirstOfRow, Number };
} // namespace

template <From Source>
FSDP_AVX512 FSDP_INLINE Vector lanesOf(const float *row, int64_t column, float number) {
  if constexpr (Source == From::Row)
    return _mm512_loadu_ps(row + column);
  return _mm512_set1_ps(Source == From::Number ? number : *row);
}
template <From Source>
FSDP_AVX512 FSDP_INLINE Vector lanesOf(const float *row, int64_t column, float number,
                                       __mmask16 lanes) {
  if constexpr (Source == From::Row)
    return _mm512_maskz_loadu_ps(lanes, row + column);
  return lanesOf<Source>(row, column, number);
}

template <typename Op, From A>
FSDP_AVX512 static void runUnary(SourceRows a, SourceRows, float, float *to, int64_t stride,
                                 int64_t columns, int64_t count) {
  for (; count > 0; --count, a.data += a.stride, to += stride) {
    int64_t j = 0;
    for (; j + kLanes <= columns; j += kLanes)
      _mm512_storeu_ps(to + j, Op::apply(lanesOf<A>(a.data, j, 0)));
    if (__mmask16 rest = maskOf(columns - j))
      _mm512_mask_storeu_ps(to + j, rest, Op::apply(lanesOf<A>(a.data, j, 0, rest)));
  }
}

template <typename Op, From A, From B>
FSDP_AVX512 static void runBinary(SourceRows a, SourceRows b, float number, float *to,
                                  int64_t stride, int64_t columns, int64_t count) {
  for (; count > 0; --count, a.data += a.stride, b.data += b.stride, to += stride) {
    int64_t j = 0;
    for (; j + kLanes <= columns; j += kLanes)
      _mm512_storeu_ps(to + j, Op::apply(lanesOf<A>(a.data, j, 0), lanesOf<B>(b.data, j, number)));
    if (__mmask16 rest = maskOf(columns - j))
      _mm512_mask_storeu_ps(
          to + j, rest,
          Op::apply(lanesOf<A>(a.data, j, 0, rest), lanesOf<B>(b.data, j, number, rest)));
  }
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

/// After `count` numbers, `level` has been added up to this level: adds each level that is full to
/// the next. `levels` are `width` floats each, whole vectors.
FSDP_AVX512 FSDP_INLINE void carry(float *levels, int64_t width, int64_t count) {
  for (int64_t level = 1, numbers = kSumStep; level < kSumLevels && count % numbers == 0;
       ++level, numbers *= kSumStep) {
    float *to = levels + level * width, *from = to - width;
    for (int64_t j = 0; j < width; j += kLanes) {
      _mm512_storeu_ps(to + j, _mm512_add_ps(_mm512_loadu_ps(to + j), _mm512_loadu_ps(from + j)));
      _mm512_storeu_ps(from + j, _mm512_setzero_ps());
    }
  }
}

/// The sum of a row as torch's vectors of 8 add it: four of them side by side, in a cascade.
FSDP_AVX512 static float sumOf(const float *row, int64_t columns) {
  alignas(64) float levels[kSumLevels * kRowSumStep] = {};
  Vector low = _mm512_setzero_ps(), high = _mm512_setzero_ps();
  for (int64_t j = 0; j < columns; j += kRowSumStep) {
    low = _mm512_add_ps(low, _mm512_loadu_ps(row + j));
    high = _mm512_add_ps(high, _mm512_loadu_ps(row + j + kLanes));
    if (int64_t count = j / kRowSumStep + 1; count % kSumStep == 0) {
      _mm512_store_ps(levels, low);
      _mm512_store_ps(levels + kLanes, high);
      carry(levels, kRowSumStep, count);
      low = high = _mm512_setzero_ps();
    }
  }
  for (int64_t level = 1; level < kSumLevels; ++level) {
    low = _mm512_add_ps(low, _mm512_load_ps(levels + level * kRowSumStep));
    high = _mm512_add_ps(high, _mm512_load_ps(levels + level * kRowSumStep + kLanes));
  }
  __m256 sum = _mm256_add_ps(_mm512_castps512_ps256(low), _mm512_extractf32x8_ps(low, 1));
  sum = _mm256_add_ps(sum, _mm512_castps512_ps256(high));
  sum = _mm256_add_ps(sum, _mm512_extractf32x8_ps(high, 1));
  float lanes[8], total = 0;
  _mm256_storeu_ps(lanes, sum);
  for (float lane : lanes)
    total += lane;
  return total;
}

static void sumRows(SourceRows a, SourceRows, float, float *to, int64_t stride, int64_t columns,
                    int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    to[i * stride] = sumOf(a.data + i * a.stride, columns);
}

static void averageRows(SourceRows a, SourceRows, float number, float *to, int64_t stride,
                        int64_t columns, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    to[i * stride] = sumOf(a.data + i * a.stride, columns) / number;
}

void ColumnSums::begin(float *partial, int64_t columns) {
  std::fill_n(partial, partialSums(columns), 0.0f);
}

FSDP_AVX512 void ColumnSums::add(float *partial, SourceRows input, int64_t columns, int64_t first,
                                 int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float *row = input.data + i * input.stride;
    for (int64_t j = 0; j < columns; j += kLanes)
      _mm512_storeu_ps(partial + j,
                       _mm512_add_ps(_mm512_loadu_ps(partial + j), _mm512_loadu_ps(row + j)));
    if ((first + i + 1) % kSumStep == 0)
      carry(partial, columns, first + i + 1);
  }
}

FSDP_AVX512 void ColumnSums::finish(const float *partial, float *output, int64_t columns) {
  for (int64_t j = 0; j < columns; j += kLanes) {
    Vector sum = _mm512_loadu_ps(partial + j);
    for (int64_t level = 1; level < kSumLevels; ++level)
      sum = _mm512_add_ps(sum, _mm512_loadu_ps(partial + level * columns + j));
    _mm512_storeu_ps(output + j, sum);
  }
}

//===----------------------------------------------------------------------===//
// Dispatch
//===----------------------------------------------------------------------===//

template <typename Op> static RowKernel unaryOf(const RowShape &shape) {
  return shape.inputs[0].columnStride ? runUnary<Op, From::Row> : runUnary<Op, From::FirstOfRow>;
}

template <typename Op, From A> static RowKernel binaryOf(const RowShape &shape) {
  if (shape.inputs.size() == 1)
    return runBinary<Op, A, From::Number>;
  return shape.inputs[1].columnStride ? runBinary<Op, A, From::Row>
                                      : runBinary<Op, A, From::FirstOfRow>;
}

template <typename Op> static RowKernel binaryOf(const RowShape &shape) {
  return shape.inputs[0].columnStride ? binaryOf<Op, From::Row>(shape)
                                      : binaryOf<Op, From::FirstOfRow>(shape);
}

RowKernel fsdp::rt::rowKernelOf(const RowShape &shape) {
  switch (shape.kind) {
  case RowKind::Multiply:
  case RowKind::MultiplyByNumber:
    return binaryOf<Multiply>(shape);
  case RowKind::Add:
  case RowKind::AddNumber:
    return binaryOf<Add>(shape);
  case RowKind::DivideByNumber:
    return binaryOf<Divide>(shape);
  case RowKind::Negate:
    return unaryOf<Negate>(shape);
  case RowKind::Copy:
  case RowKind::Concatenate:
    return unaryOf<Copy>(shape);
  case RowKind::Square:
    return unaryOf<Square>(shape);
  case RowKind::Cube:
    return unaryOf<Cube>(shape);
  case RowKind::ReciprocalRoot:
    return unaryOf<ReciprocalRoot>(shape);
  case RowKind::Silu:
    return unaryOf<Silu>(shape);
  case RowKind::SiluBackward:
    return binaryOf<SiluBackward>(shape);
  case RowKind::RowSum:
    return sumRows;
  case RowKind::RowMean:
    return averageRows;
  case RowKind::ColumnSum:
    break;
  }
  return nullptr;
}
#else
bool fsdp::rt::areRowKernelsSupported() { return false; }
RowKernel fsdp::rt::rowKernelOf(const RowShape &) { return nullptr; }
void ColumnSums::begin(float *, int64_t) {}
void ColumnSums::add(float *, SourceRows, int64_t, int64_t, int64_t) {}
void ColumnSums::finish(const float *, float *, int64_t) {}
#endif
