//===- BlockedGemm.cpp - Products of fp32 matrices for AVX-512 -------------===//

#include "executor/BlockedGemm.h"
#include "executor/Avx512.h"

#include <ATen/Parallel.h>

#include <algorithm>

using namespace fsdp::rt;

// A tile of C is kTileRows x kTileColumns: its sums fill 24 of 32 vector registers. A panel of
// kTileRows rows of A stays in the first-level cache while the block of B, in panels of
// kTileColumns columns, streams by from the second-level cache.
static constexpr int64_t kTileRows = 8, kTileVectors = 3;
static constexpr int64_t kTileColumns = kTileVectors * kLanes;
static constexpr int64_t kAhead = 8; // rows of B that are prefetched before they are used
static constexpr int64_t kBlockColumns = 11 * kTileColumns; // of B, packed at a time
static constexpr int64_t kBlockRows = 8 * kTileRows;        // of A, packed at a time

static int64_t roundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

#if defined(__x86_64__)
namespace {
/// A matrix inside an operand.
struct Source {
  const float *data;
  int64_t rowStride, columnStride;
};
} // namespace

//===----------------------------------------------------------------------===//
// Packing
//===----------------------------------------------------------------------===//

/// Writes the transpose of the 8x16 floats at `from` to 16 rows of 8, two rows at a time.
FSDP_AVX512 FSDP_INLINE void transpose8(const float *from, int64_t stride, float *to) {
  Vector r[8];
  for (int i = 0; i < 8; ++i) {
    r[i] = _mm512_loadu_ps(from + i * stride);
    prefetch(from + (i + 8) * stride);
  }
  transposeLanes(r);
  transposeLanes(r + 4);
  for (int j = 0; j < 4; j += 2) {
    Vector low = FSDP_LANES(r[j], r[4 + j], 0, 1, 0, 1);
    Vector high = FSDP_LANES(r[j], r[4 + j], 2, 3, 2, 3);
    Vector nextLow = FSDP_LANES(r[j + 1], r[5 + j], 0, 1, 0, 1);
    Vector nextHigh = FSDP_LANES(r[j + 1], r[5 + j], 2, 3, 2, 3);
    _mm512_storeu_ps(to + j * 8, FSDP_LANES(low, nextLow, 0, 2, 0, 2));
    _mm512_storeu_ps(to + (4 + j) * 8, FSDP_LANES(low, nextLow, 1, 3, 1, 3));
    _mm512_storeu_ps(to + (8 + j) * 8, FSDP_LANES(high, nextHigh, 0, 2, 0, 2));
    _mm512_storeu_ps(to + (12 + j) * 8, FSDP_LANES(high, nextHigh, 1, 3, 1, 3));
  }
}

/// Packs rows x depth elements of A as panels of kTileRows rows: [depth][kTileRows] each, zero
/// where there is no row.
FSDP_AVX512 static void packA(const Source &a, int64_t rows, int64_t depth, float *to) {
  const int64_t panel = depth * kTileRows;
  int64_t first = 0;
  // Two panels at a time fill a vector, and a cache line.
  if (a.rowStride == 1)
    for (; first + kLanes <= rows; first += kLanes, to += 2 * panel)
      for (int64_t k = 0; k < depth; ++k) {
        const float *from = a.data + first + k * a.columnStride;
        Vector both = _mm512_loadu_ps(from);
        prefetch(from + kLanes);
        _mm256_storeu_ps(to + k * kTileRows,
                         __builtin_shufflevector(both, both, 0, 1, 2, 3, 4, 5, 6, 7));
        _mm256_storeu_ps(to + panel + k * kTileRows,
                         __builtin_shufflevector(both, both, 8, 9, 10, 11, 12, 13, 14, 15));
      }
  for (; first < rows; first += kTileRows, to += panel) {
    const float *from = a.data + first * a.rowStride;
    int64_t height = std::min(kTileRows, rows - first), k = 0;
    if (height == kTileRows && a.columnStride == 1)
      for (; k + kLanes <= depth; k += kLanes)
        transpose8(from + k, a.rowStride, to + k * kTileRows);
    for (; k < depth; ++k)
      for (int64_t i = 0; i < kTileRows; ++i)
        to[k * kTileRows + i] = i < height ? from[i * a.rowStride + k * a.columnStride] : 0;
  }
}

/// Packs depth x columns elements of B as panels of kTileColumns columns, the last one as many
/// vectors wide as it needs: [depth][width] each, zero where there is no column.
FSDP_AVX512 static void packB(const Source &b, int64_t depth, int64_t columns, float *to) {
  for (int64_t first = 0; first < columns; first += kTileColumns) {
    int64_t given = std::min(kTileColumns, columns - first), width = roundUp(given, kLanes);
    const float *from = b.data + first * b.columnStride;
    for (int64_t j = 0; j < width; j += kLanes) {
      int64_t k = 0;
      if (b.columnStride == 1) {
        __mmask16 mask = maskOf(given - j);
        for (; k < depth; ++k) {
          prefetch(from + k * b.rowStride + j + kTileColumns);
          _mm512_storeu_ps(to + k * width + j,
                           _mm512_maskz_loadu_ps(mask, from + k * b.rowStride + j));
        }
      } else if (b.rowStride == 1 && given - j >= kLanes) {
        for (; k + kLanes <= depth; k += kLanes)
          transpose16(from + j * b.columnStride + k, b.columnStride, to + k * width + j, width);
      }
      for (; k < depth; ++k)
        for (int64_t lane = 0; lane < kLanes; ++lane)
          to[k * width + j + lane] =
              j + lane < given ? from[k * b.rowStride + (j + lane) * b.columnStride] : 0;
    }
    to += depth * width;
  }
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

/// Adds the products of one column of a panel of A and one row of a panel of B.
template <int Rows, int Vectors>
FSDP_AVX512 FSDP_INLINE void addProducts(Vector (&sum)[Rows][Vectors], const float *a,
                                         const float *b) {
  Vector row[Vectors];
#pragma GCC unroll 8
  for (int j = 0; j < Vectors; ++j) {
    row[j] = _mm512_loadu_ps(b + j * kLanes);
    prefetch(b + (kAhead * Vectors + j) * kLanes);
  }
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i) {
    Vector factor = _mm512_set1_ps(a[i]);
#pragma GCC unroll 8
    for (int j = 0; j < Vectors; ++j)
      sum[i][j] = _mm512_fmadd_ps(factor, row[j], sum[i][j]);
  }
}

// All loops over a tile are unrolled, so that the sums stay in registers.

/// Computes `Rows` rows of a tile of `Vectors` vectors; `mask` are the lanes of the last vector.
template <int Rows, int Vectors>
FSDP_AVX512 static void computeTile(const float *a, const float *b, float *c, int64_t stride,
                                    int64_t depth, bool add, __mmask16 mask) {
  Vector sum[Rows][Vectors];
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < Vectors; ++j)
      sum[i][j] = _mm512_setzero_ps();
  // C comes from far away. One line at a time, so that B, which comes from near, need not queue.
  int64_t k = 0, lines = std::min<int64_t>(Rows * Vectors, depth);
  for (; k < lines; ++k) {
    prefetch(c + k / Vectors * stride + k % Vectors * kLanes);
    addProducts(sum, a + k * kTileRows, b + k * Vectors * kLanes);
  }
  for (; k < depth; ++k)
    addProducts(sum, a + k * kTileRows, b + k * Vectors * kLanes);
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < Vectors; ++j) {
      float *to = c + i * stride + j * kLanes;
      __mmask16 lanes = j == Vectors - 1 ? mask : __mmask16(0xffff);
      // A sum that vanishes below zero is -0, and 0 after the addition.
      Vector before = add ? _mm512_maskz_loadu_ps(lanes, to) : _mm512_setzero_ps();
      Vector result = _mm512_add_ps(before, sum[i][j]);
      _mm512_mask_storeu_ps(to, lanes, result);
    }
}

using TileKernel = void (*)(const float *, const float *, float *, int64_t, int64_t, bool,
                            __mmask16);
#define FSDP_ROW(rows) {computeTile<rows, 1>, computeTile<rows, 2>, computeTile<rows, 3>}
static constexpr TileKernel kTileKernels[kTileRows][kTileVectors] = {
    FSDP_ROW(1), FSDP_ROW(2), FSDP_ROW(3), FSDP_ROW(4),
    FSDP_ROW(5), FSDP_ROW(6), FSDP_ROW(7), FSDP_ROW(8)};

/// Adds a packed block of A times a packed block of B to the block of C at `c`, or sets it.
static void multiplyBlocks(const float *a, const float *b, float *c, int64_t stride, int64_t rows,
                           int64_t columns, int64_t depth, bool add) {
  for (int64_t i = 0; i < rows; i += kTileRows) {
    int64_t height = std::min(kTileRows, rows - i);
    const float *panel = b;
    for (int64_t j = 0; j < columns; j += kTileColumns) {
      int64_t width = std::min(kTileColumns, columns - j), vectors = (width + kLanes - 1) / kLanes;
      auto mask = static_cast<__mmask16>(0xffff >> (vectors * kLanes - width));
      kTileKernels[height - 1][vectors - 1](a + i * depth, panel, c + i * stride + j, stride, depth,
                                            add, mask);
      panel += depth * vectors * kLanes;
    }
  }
}

bool BlockedGemm::isSupported() { return hasAvx512(); }

void BlockedGemm::runPart(const GemmOperands &operands, const Part &part, float *workspace) const {
  // Blocks of columns as equal as whole tiles allow.
  int64_t blocks = (part.columns + kBlockColumns - 1) / kBlockColumns;
  int64_t blockColumns = roundUp((part.columns + blocks - 1) / blocks, kTileColumns);
  float *packedB = workspace, *packedA = workspace + kBlockColumns * std::min(depth, shape.k);
  for (int64_t matrix = 0; matrix < shape.batch; ++matrix) {
    const float *a = operands.a + matrix * shape.a.batch + part.firstRow * shape.a.row;
    const float *b = operands.b + matrix * shape.b.batch + part.firstColumn * shape.b.column;
    float *c = operands.c + matrix * shape.c.batch + part.firstRow * shape.c.row + part.firstColumn;
    if (shape.hasBias) {
      const float *bias = operands.bias + matrix * shape.bias.batch +
                          part.firstRow * shape.bias.row + part.firstColumn * shape.bias.column;
      for (int64_t i = 0; i < part.rows; ++i)
        for (int64_t j = 0; j < part.columns; ++j)
          c[i * shape.c.row + j] = bias[i * shape.bias.row + j * shape.bias.column];
    }
    for (int64_t j = 0; j < part.columns; j += blockColumns)
      for (int64_t k = 0; k < shape.k; k += depth) {
        int64_t columns = std::min(blockColumns, part.columns - j);
        int64_t count = std::min(depth, shape.k - k);
        packB({b + k * shape.b.row + j * shape.b.column, shape.b.row, shape.b.column}, count,
              columns, packedB);
        for (int64_t i = 0; i < part.rows; i += kBlockRows) {
          int64_t rows = std::min(kBlockRows, part.rows - i);
          packA({a + i * shape.a.row + k * shape.a.column, shape.a.row, shape.a.column}, rows,
                count, packedA);
          multiplyBlocks(packedA, packedB, c + i * shape.c.row + j, shape.c.row, rows, columns,
                         count, shape.hasBias || k > 0);
        }
      }
  }
}
#else
bool BlockedGemm::isSupported() { return false; }
void BlockedGemm::runPart(const GemmOperands &, const Part &, float *) const {}
#endif

//===----------------------------------------------------------------------===//
// Threads
//===----------------------------------------------------------------------===//

BlockedGemm::BlockedGemm(const GemmShape &shape, int64_t depth, int threads)
    : shape(shape), depth(depth),
      parts(static_cast<int>(std::clamp<int64_t>(
          std::max(shape.m / kBlockRows, shape.n / kTileColumns), 1, threads))) {}

/// Cuts the longer side of C in whole tiles.
BlockedGemm::Part BlockedGemm::partOf(int index) const {
  bool byRows = shape.m / kBlockRows >= shape.n / kTileColumns;
  int64_t length = byRows ? shape.m : shape.n;
  int64_t share = roundUp((length + parts - 1) / parts, byRows ? kTileRows : kTileColumns);
  int64_t first = std::min(share * index, length), count = std::min(share, length - first);
  return byRows ? Part{first, count, 0, shape.n} : Part{0, shape.m, first, count};
}

/// Of one part, in floats: whole cache lines.
static int64_t partWorkspace(int64_t depth) {
  return roundUp((kBlockColumns + kBlockRows) * depth, kLanes);
}

size_t BlockedGemm::workspaceBytes() const {
  return sizeof(float) * static_cast<size_t>(parts * partWorkspace(std::min(depth, shape.k)));
}

void BlockedGemm::run(const GemmOperands &operands, std::byte *workspace) const {
  auto *floats = reinterpret_cast<float *>(workspace);
  int64_t each = partWorkspace(std::min(depth, shape.k));
  if (parts == 1) {
    runPart(operands, partOf(0), floats);
    return;
  }
  at::parallel_for(0, parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      if (Part part = partOf(static_cast<int>(i)); part.rows > 0 && part.columns > 0)
        runPart(operands, part, floats + i * each);
  });
}
