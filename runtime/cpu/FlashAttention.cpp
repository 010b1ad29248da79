//===- FlashAttention.cpp - fp32 attention with AVX-512 -------------------===//

#include "cpu/FlashAttention.h"
#include "cpu/Avx512Exp.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

using namespace fsdp::rt;

/// Torch processes keys in blocks of this size and rescales between them; this kernel supports one
/// block.
static constexpr int64_t kMostKeys = 512;
/// Rows of a product that are computed at a time, in registers, each 2 vectors wide.
static constexpr int64_t kTileRows = 8;

int64_t FlashAttention::queryBlock(int64_t queries) {
  return std::min<int64_t>(queries, queries >= 768 ? 256 : queries >= 192 ? 64 : 32);
}

int64_t FlashAttention::visibleKeys(int64_t query) const {
  return shape.isCausal ? std::min(query + 1, shape.keys) : shape.keys;
}

FlashAttention::FlashAttention(const AttentionShape &shape, bool isBackward,
                               int64_t (*depthOf)(int64_t k), int threads)
    : shape(shape), isBackward(isBackward), depthOf(depthOf),
      parts(static_cast<int>(std::clamp<int64_t>(shape.batch * shape.keyHeads, 1, threads))) {}

/// Floats for one pair of batch and key head.
static int64_t workspaceOfHead(const AttentionShape &shape, bool isBackward) {
  int64_t panel = shape.keys * shape.headSize, block = FlashAttention::queryBlock(shape.queries);
  // Copies of keys and values, by rows or by columns; rows of scores; for the backward also
  // gradients of scores, and scaled queries.
  return isBackward ? 3 * panel + 2 * block * shape.keys + block * shape.headSize
                    : 2 * panel + kTileRows * (shape.keys + shape.headSize);
}

size_t FlashAttention::workspaceBytes() const {
  return sizeof(float) * static_cast<size_t>(parts * workspaceOfHead(shape, isBackward));
}

#if defined(__x86_64__)
//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

namespace {
enum class Access { Rows, Columns };

/// C = 0 + A B, or C + A B, over [first, last) of the inner dimension, in chains of `depth`
/// additions that begin at multiples of it. Element (i, k) of A is at a[i * aStride + k] (Rows) or
/// a[i + k * aStride] (Columns).
struct Product {
  const float *a;
  int64_t aStride;
  const float *b;
  int64_t bStride;
  float *c;
  int64_t cStride;
  int64_t first, last, depth;
  bool add;
};
} // namespace

template <int Rows, int Vectors, Access AAccess>
FSDP_AVX512 static void multiplyTile(const Product &product) {
  const float *b = product.b + product.first * product.bStride;
  bool add = product.add;
  for (int64_t k = product.first; k < product.last;) {
    Vector sum[Rows][Vectors];
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 2
      for (int j = 0; j < Vectors; ++j)
        sum[i][j] = _mm512_setzero_ps();
    int64_t end = std::min(product.last, (k / product.depth + 1) * product.depth);
    for (; k < end; ++k, b += product.bStride) {
      Vector row[Vectors];
#pragma GCC unroll 2
      for (int j = 0; j < Vectors; ++j)
        row[j] = _mm512_loadu_ps(b + j * kLanes);
#pragma GCC unroll 8
      for (int i = 0; i < Rows; ++i) {
        Vector factor =
            _mm512_set1_ps(AAccess == Access::Rows ? product.a[i * product.aStride + k]
                                                   : product.a[i + k * product.aStride]);
#pragma GCC unroll 2
        for (int j = 0; j < Vectors; ++j)
          sum[i][j] = _mm512_fmadd_ps(factor, row[j], sum[i][j]);
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 2
      for (int j = 0; j < Vectors; ++j) {
        float *to = product.c + i * product.cStride + j * kLanes;
        _mm512_storeu_ps(to,
                         _mm512_add_ps(add ? _mm512_loadu_ps(to) : _mm512_setzero_ps(), sum[i][j]));
      }
    add = true;
  }
}

/// Computes `rows` (1 to kTileRows) rows of C, `vectors` vectors wide.
template <Access AAccess>
FSDP_AVX512 static void multiply(Product product, int64_t rows, int64_t vectors) {
  using Tile = void (*)(const Product &);
  static constexpr Tile tiles[kTileRows][2] = {
      {multiplyTile<1, 1, AAccess>, multiplyTile<1, 2, AAccess>},
      {multiplyTile<2, 1, AAccess>, multiplyTile<2, 2, AAccess>},
      {multiplyTile<3, 1, AAccess>, multiplyTile<3, 2, AAccess>},
      {multiplyTile<4, 1, AAccess>, multiplyTile<4, 2, AAccess>},
      {multiplyTile<5, 1, AAccess>, multiplyTile<5, 2, AAccess>},
      {multiplyTile<6, 1, AAccess>, multiplyTile<6, 2, AAccess>},
      {multiplyTile<7, 1, AAccess>, multiplyTile<7, 2, AAccess>},
      {multiplyTile<8, 1, AAccess>, multiplyTile<8, 2, AAccess>}};
  for (int64_t j = 0; j < vectors; j += 2) {
    tiles[rows - 1][vectors - j > 1 ? 1 : 0](product);
    product.b += 2 * kLanes;
    product.c += 2 * kLanes;
  }
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

/// Writes `rows` rows of `columns` floats each, times `factor`, one after another.
FSDP_AVX512 static void copyRows(const float *from, int64_t stride, int64_t rows, int64_t columns,
                                 float factor, float *to) {
  Vector factors = _mm512_set1_ps(factor);
  for (int64_t i = 0; i < rows; ++i, from += stride, to += columns)
    for (int64_t j = 0; j < columns; j += kLanes)
      _mm512_storeu_ps(to + j, _mm512_mul_ps(_mm512_loadu_ps(from + j), factors));
}

/// Writes the transpose of rows of `columns` floats, times `factor`.
FSDP_AVX512 static void copyTransposed(const float *from, int64_t stride, int64_t rows,
                                       int64_t columns, float factor, float *to) {
  for (int64_t j = 0; j < columns; j += kLanes)
    for (int64_t i = 0; i < rows; i += kLanes)
      transpose16(from + i * stride + j, stride, to + j * rows + i, rows);
  Vector factors = _mm512_set1_ps(factor);
  if (factor != 1)
    for (int64_t i = 0; i < rows * columns; i += kLanes)
      _mm512_storeu_ps(to + i, _mm512_mul_ps(_mm512_loadu_ps(to + i), factors));
}

//===----------------------------------------------------------------------===//
// Operands for which skipping masked elements changes nothing
//===----------------------------------------------------------------------===//

/// The bits of the greatest absolute value; those of a NaN are greater than infinity's.
FSDP_AVX512 static uint32_t greatestBits(const float *data, const HeadStrides &strides,
                                         int64_t batch, int64_t heads, int64_t rows,
                                         int64_t columns) {
  __m512i greatest = _mm512_setzero_si512();
  const __m512i withoutSign = _mm512_set1_epi32(0x7fffffff);
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t h = 0; h < heads; ++h) {
        const float *row = data + b * strides.batch + h * strides.head + i * strides.row;
        for (int64_t j = 0; j < columns; j += kLanes)
          greatest = _mm512_max_epu32(greatest,
                                      _mm512_and_si512(_mm512_loadu_si512(row + j), withoutSign));
      }
  return static_cast<uint32_t>(_mm512_reduce_max_epu32(greatest));
}

static float fromBits(uint32_t bits) {
  float number;
  std::memcpy(&number, &bits, sizeof number);
  return number;
}

bool FlashAttention::isTame(const AttentionOperands &operands) const {
  const AttentionShape &s = shape;
  auto greatest = [&](const float *data, const HeadStrides &strides, int64_t heads, int64_t rows) {
    return fromBits(greatestBits(data, strides, s.batch, heads, rows, s.headSize));
  };
  // Far below overflow, also for sums over a head or over all keys and queries. Comparisons with
  // NaN are false.
  constexpr float kTame = 1e30f;
  float query = greatest(operands.query, s.query, s.queryHeads, s.queries);
  float key = greatest(operands.key, s.key, s.keyHeads, s.keys);
  float value = greatest(operands.value, s.value, s.keyHeads, s.keys);
  float size = static_cast<float>(s.headSize);
  if (!(query * key * size < kTame && value < kTame))
    return false;
  if (!isBackward)
    return true;
  float gradient = greatest(operands.gradientOutput, s.gradientOutput, s.queryHeads, s.queries);
  float output = greatest(operands.output, s.output, s.queryHeads, s.queries);
  float scores = gradient * (value + output) * size;
  if (!(scores < kTame && scores * (query + key) * std::abs(s.scale) < kTame))
    return false;
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t h = 0; h < s.queryHeads; ++h)
      for (int64_t i = 0; i < s.queries; ++i)
        if (!std::isfinite(operands.logSumExp[b * s.logSumExp.batch + h * s.logSumExp.head +
                                              i * s.logSumExp.row]))
          return false;
  return true;
}

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

/// The sum of all lanes, by repeated halving.
FSDP_AVX512 FSDP_INLINE float sumOf(Vector v) {
  v = _mm512_add_ps(v, _mm512_shuffle_f32x4(v, v, 0x4e));
  v = _mm512_add_ps(v, _mm512_shuffle_f32x4(v, v, 0xb1));
  v = _mm512_add_ps(v, _mm512_shuffle_ps(v, v, 0x4e));
  v = _mm512_add_ps(v, _mm512_shuffle_ps(v, v, 0xb1));
  return _mm512_cvtss_f32(v);
}

/// Replaces the first `visible` products of a row by exp(scale * product - greatest), and the rest
/// of the last vector by zeros. Returns the sum; sets `greatest`.
FSDP_AVX512 static float exponentialsOf(float *row, int64_t visible, float scale, float &greatest) {
  const Vector scales = _mm512_set1_ps(scale);
  const Vector lowest = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
  Vector most = lowest;
  for (int64_t j = 0; j < visible; j += kLanes) {
    Vector scaled = _mm512_mul_ps(_mm512_loadu_ps(row + j), scales);
    scaled = _mm512_mask_mov_ps(lowest, maskOf(visible - j), scaled);
    most = _mm512_max_ps(most, scaled);
    _mm512_storeu_ps(row + j, scaled);
  }
  greatest = _mm512_reduce_max_ps(most);
  const Vector subtrahend = _mm512_set1_ps(greatest);
  Vector sum = _mm512_setzero_ps();
  for (int64_t j = 0; j < visible; j += kLanes) {
    Vector e = fastExp(_mm512_sub_ps(_mm512_loadu_ps(row + j), subtrahend));
    sum = _mm512_add_ps(sum, e);
    _mm512_storeu_ps(row + j, e);
  }
  return sumOf(sum);
}

FSDP_AVX512 static void multiplyRow(const float *from, float factor, int64_t count, float *to) {
  for (int64_t i = 0; i < count; i += kLanes)
    _mm512_storeu_ps(to + i, _mm512_mul_ps(_mm512_loadu_ps(from + i), _mm512_set1_ps(factor)));
}

void FlashAttention::runForward(const AttentionOperands &operands, int64_t batch, int64_t keyHead,
                                float *workspace) const {
  const AttentionShape &s = shape;
  const int64_t size = s.headSize, headVectors = size / kLanes;
  const int64_t headDepth = depthOf(size), keyDepth = depthOf(s.keys);
  float *keys = workspace, *values = keys + s.keys * size;
  float *scores = values + s.keys * size, *sums = scores + kTileRows * s.keys;
  copyTransposed(operands.key + batch * s.key.batch + keyHead * s.key.head, s.key.row, s.keys, size,
                 1, keys);
  copyRows(operands.value + batch * s.value.batch + keyHead * s.value.head, s.value.row, s.keys,
           size, 1, values);
  const int64_t group = s.queryHeads / s.keyHeads;
  for (int64_t head = keyHead * group; head < (keyHead + 1) * group; ++head)
    for (int64_t first = 0; first < s.queries; first += kTileRows) {
      int64_t rows = std::min(kTileRows, s.queries - first);
      int64_t visible = visibleKeys(first + rows - 1), vectors = (visible + kLanes - 1) / kLanes;
      const float *query =
          operands.query + batch * s.query.batch + head * s.query.head + first * s.query.row;
      multiply<Access::Rows>(
          {query, s.query.row, keys, s.keys, scores, s.keys, 0, size, headDepth, false}, rows,
          vectors);
      float sum[kTileRows], greatest[kTileRows];
      for (int64_t i = 0; i < rows; ++i) {
        float *row = scores + i * s.keys;
        int64_t own = visibleKeys(first + i);
        sum[i] = exponentialsOf(row, own, s.scale, greatest[i]);
        std::fill(row + (own + kLanes - 1) / kLanes * kLanes, row + vectors * kLanes, 0.0f);
      }
      // Masked elements would add zeros, which can change only the sign of a zero sum; and that sum
      // is added to zero.
      multiply<Access::Rows>(
          {scores, s.keys, values, size, sums, size, 0, visible, keyDepth, false}, rows,
          headVectors);
      float *output =
          operands.output + batch * s.output.batch + head * s.output.head + first * s.output.row;
      float *logSumExp = operands.logSumExp + batch * s.logSumExp.batch + head * s.logSumExp.head +
                         first * s.logSumExp.row;
      for (int64_t i = 0; i < rows; ++i) {
        multiplyRow(sums + i * size, 1 / sum[i], size, output + i * s.output.row);
        logSumExp[i * s.logSumExp.row] = greatest[i] + std::log(sum[i]);
      }
    }
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

FSDP_AVX512 static float dotProduct(const float *x, const float *y, int64_t count) {
  Vector sum = _mm512_mul_ps(_mm512_loadu_ps(x), _mm512_loadu_ps(y));
  for (int64_t i = kLanes; i < count; i += kLanes)
    sum = _mm512_add_ps(sum, _mm512_mul_ps(_mm512_loadu_ps(x + i), _mm512_loadu_ps(y + i)));
  return sumOf(sum);
}

/// Replaces a row of scores by exp(score - normalizer), and a row of gradients of these by
/// gradients of scores; after the `visible` elements both are filled with zeros up to a whole
/// vector.
FSDP_AVX512 static void differentiate(float *scores, float *gradients, int64_t visible,
                                      float normalizer, float mean) {
  const Vector normalizers = _mm512_set1_ps(normalizer), means = _mm512_set1_ps(mean);
  for (int64_t j = 0; j < visible; j += kLanes) {
    __mmask16 mask = maskOf(visible - j);
    Vector weight = sleefExp(_mm512_sub_ps(_mm512_loadu_ps(scores + j), normalizers));
    weight = _mm512_maskz_mov_ps(mask, weight);
    _mm512_storeu_ps(scores + j, weight);
    Vector gradient = _mm512_sub_ps(_mm512_loadu_ps(gradients + j), means);
    _mm512_storeu_ps(gradients + j, _mm512_maskz_mul_ps(mask, weight, gradient));
  }
}

void FlashAttention::runBackward(const AttentionOperands &operands, int64_t batch, int64_t keyHead,
                                 float *workspace) const {
  const AttentionShape &s = shape;
  const int64_t size = s.headSize, headVectors = size / kLanes, block = queryBlock(s.queries);
  const int64_t headDepth = depthOf(size), keyDepth = depthOf(s.keys);
  auto at = [&](auto *data, const HeadStrides &strides, int64_t head, int64_t row) {
    return data + batch * strides.batch + head * strides.head + row * strides.row;
  };
  // Torch's BLAS multiplies its first operand by the scale.
  float *scaledKeys = workspace, *keyColumns = scaledKeys + s.keys * size;
  float *valueColumns = keyColumns + s.keys * size, *weights = valueColumns + s.keys * size;
  float *gradients = weights + block * s.keys, *scaledQueries = gradients + block * s.keys;
  const float *key = at(operands.key, s.key, keyHead, 0);
  copyRows(key, s.key.row, s.keys, size, s.scale, scaledKeys);
  copyTransposed(key, s.key.row, s.keys, size, s.scale, keyColumns);
  copyTransposed(at(operands.value, s.value, keyHead, 0), s.value.row, s.keys, size, 1,
                 valueColumns);
  float *keyGradient = at(operands.gradientKey, s.gradientKey, keyHead, 0);
  float *valueGradient = at(operands.gradientValue, s.gradientValue, keyHead, 0);
  for (int64_t j = 0; j < s.keys; ++j) {
    std::fill_n(keyGradient + j * s.gradientKey.row, size, 0.0f);
    std::fill_n(valueGradient + j * s.gradientValue.row, size, 0.0f);
  }

  const int64_t group = s.queryHeads / s.keyHeads;
  for (int64_t head = keyHead * group; head < (keyHead + 1) * group; ++head)
    for (int64_t begin = 0; begin < s.queries; begin += block) {
      int64_t queries = std::min(block, s.queries - begin);
      const float *query = at(operands.query, s.query, head, begin);
      const float *outGradient = at(operands.gradientOutput, s.gradientOutput, head, begin);
      const float *output = at(operands.output, s.output, head, begin);
      float *queryGradient = at(operands.gradientQuery, s.gradientQuery, head, begin);
      for (int64_t first = 0; first < queries; first += kTileRows) {
        int64_t rows = std::min(kTileRows, queries - first);
        int64_t visible = visibleKeys(begin + first + rows - 1);
        int64_t vectors = (visible + kLanes - 1) / kLanes;
        float *weight = weights + first * s.keys, *gradient = gradients + first * s.keys;
        multiply<Access::Rows>({query + first * s.query.row, s.query.row, keyColumns, s.keys,
                                weight, s.keys, 0, size, headDepth, false},
                               rows, vectors);
        multiply<Access::Rows>({outGradient + first * s.gradientOutput.row, s.gradientOutput.row,
                                valueColumns, s.keys, gradient, s.keys, 0, size, headDepth, false},
                               rows, vectors);
        for (int64_t i = 0; i < rows; ++i) {
          int64_t own = visibleKeys(begin + first + i), rest = (own + kLanes - 1) / kLanes * kLanes;
          float mean = dotProduct(outGradient + (first + i) * s.gradientOutput.row,
                                  output + (first + i) * s.output.row, size);
          differentiate(weight + i * s.keys, gradient + i * s.keys, own,
                        *at(operands.logSumExp, s.logSumExp, head, begin + first + i), mean);
          std::fill(weight + i * s.keys + rest, weight + (i + 1) * s.keys, 0.0f);
          std::fill(gradient + i * s.keys + rest, gradient + (i + 1) * s.keys, 0.0f);
        }
        float *to = queryGradient + first * s.gradientQuery.row;
        multiply<Access::Rows>({gradient, s.keys, scaledKeys, size, to, s.gradientQuery.row, 0,
                                visible, keyDepth, false},
                               rows, headVectors);
      }
      const int64_t queryDepth = depthOf(queries);
      copyRows(query, s.query.row, queries, size, s.scale, scaledQueries);
      int64_t visible = visibleKeys(begin + queries - 1);
      for (int64_t j = 0; j < visible; j += kTileRows) {
        int64_t rows = std::min(kTileRows, visible - j);
        // The first queries see none of these keys, and would add zeros to a zero.
        int64_t first = shape.isCausal ? std::clamp<int64_t>(j - begin, 0, queries) : 0;
        multiply<Access::Columns>({weights + j, s.keys, outGradient, s.gradientOutput.row,
                                   valueGradient + j * s.gradientValue.row, s.gradientValue.row,
                                   first, queries, queryDepth, true},
                                  rows, headVectors);
        multiply<Access::Columns>({gradients + j, s.keys, scaledQueries, size,
                                   keyGradient + j * s.gradientKey.row, s.gradientKey.row, first,
                                   queries, queryDepth, true},
                                  rows, headVectors);
      }
    }
}

bool FlashAttention::isSupported(const AttentionShape &s) {
  return hasAvx512() && s.keys > 0 && s.keys <= kMostKeys && s.keys % kLanes == 0 &&
         s.headSize > 0 && s.headSize % kLanes == 0 && s.batch > 0 && s.queries > 0 &&
         s.keyHeads > 0 && s.queryHeads > 0 && s.queryHeads % s.keyHeads == 0;
}
#else
bool FlashAttention::isSupported(const AttentionShape &) { return false; }
bool FlashAttention::isTame(const AttentionOperands &) const { return false; }
void FlashAttention::runForward(const AttentionOperands &, int64_t, int64_t, float *) const {}
void FlashAttention::runBackward(const AttentionOperands &, int64_t, int64_t, float *) const {}
#endif

bool FlashAttention::run(const AttentionOperands &operands, std::byte *workspace) const {
  if (!isTame(operands))
    return false;
  auto *floats = reinterpret_cast<float *>(workspace);
  const int64_t heads = shape.batch * shape.keyHeads, each = workspaceOfHead(shape, isBackward);
  at::parallel_for(0, parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part)
      for (int64_t i = heads * part / parts; i < heads * (part + 1) / parts; ++i)
        isBackward
            ? runBackward(operands, i / shape.keyHeads, i % shape.keyHeads, floats + part * each)
            : runForward(operands, i / shape.keyHeads, i % shape.keyHeads, floats + part * each);
  });
  return true;
}
