//===- GemmPacking.h - Packs and prefetches blocks of matrices -*- C++ -*-===//
//
// Preparation of BlockedGemm's operands before they are multiplied: packing in panels, or
// prefetching into the caches.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_GEMMPACKING_H
#define FSDP_RUNTIME_GEMMPACKING_H

#include "cpu/Avx512.h"

#include <algorithm>

namespace fsdp::rt {

/// A tile of C is kTileRows x kTileColumns: its sums fill 24 of 32 vector registers.
inline constexpr int64_t kTileRows = 8, kTileVectors = 3;
inline constexpr int64_t kTileColumns = kTileVectors * kLanes;

/// `value`, or the next larger multiple.
inline int64_t roundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

#if defined(__x86_64__)
/// A matrix inside an operand.
struct Source {
  const float *data;
  int64_t rowStride, columnStride;
};

/// Packs rows x depth elements of A as panels of kTileRows rows: [depth][kTileRows] each, zero
/// where there is no row.
FSDP_AVX512 inline void packA(const Source &a, int64_t rows, int64_t depth, float *to) {
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
    int64_t height = std::min(kTileRows, rows - first);
    for (int64_t k = 0; k < depth; ++k)
      for (int64_t i = 0; i < kTileRows; ++i)
        to[k * kTileRows + i] = i < height ? from[i * a.rowStride + k * a.columnStride] : 0;
  }
}

/// Packs depth x columns elements of B as panels of kTileColumns columns, the last one as many
/// vectors wide as it needs: [depth][width] each, zero where there is no column.
FSDP_AVX512 inline void packB(const Source &b, int64_t depth, int64_t columns, float *to) {
  for (int64_t first = 0; first < columns; first += kTileColumns) {
    int64_t given = std::min(kTileColumns, columns - first), width = roundUp(given, kLanes);
    const float *from = b.data + first * b.columnStride;
    if (b.columnStride == 1) {
      for (int64_t k = 0; k < depth; ++k)
        for (int64_t j = 0; j < width; j += kLanes) {
          const float *line = from + k * b.rowStride + j;
          prefetch(line + kTileColumns);
          _mm512_storeu_ps(to + k * width + j, _mm512_maskz_loadu_ps(maskOf(given - j), line));
        }
      to += depth * width;
      continue;
    }
    for (int64_t j = 0; j < width; j += kLanes) {
      int64_t k = 0;
      if (b.rowStride == 1 && given - j >= kLanes)
        for (; k + kLanes <= depth; k += kLanes)
          transpose16(from + j * b.columnStride + k, b.columnStride, to + k * width + j, width);
      for (; k < depth; ++k)
        for (int64_t lane = 0; lane < kLanes; ++lane)
          to[k * width + j + lane] =
              j + lane < given ? from[k * b.rowStride + (j + lane) * b.columnStride] : 0;
    }
    to += depth * width;
  }
}

/// The cache lines of a block of a matrix, fetched a few at a time beside other work.
class BlockLines {
public:
  BlockLines() = default;
  /// A block of rows x columns elements, one of whose strides is 1, to be fetched in `portions`
  /// calls of fetch().
  BlockLines(const Source &block, int64_t rows, int64_t columns, int64_t portions)
      : data(block.data) {
    bool byRows = block.columnStride == 1;
    stride = byRows ? block.rowStride : block.columnStride;
    linesInRow = ((byRows ? columns : rows) + kLanes - 1) / kLanes;
    left = (byRows ? rows : columns) * linesInRow;
    portion = (left + portions - 1) / portions;
  }

  void fetch() {
    int64_t count = std::min(portion, left);
    for (left -= count; count > 0; --count) {
      prefetch(data + line * kLanes);
      if (++line == linesInRow) {
        line = 0;
        data += stride;
      }
    }
  }

private:
  const float *data = nullptr;
  int64_t stride = 0, linesInRow = 0, line = 0, left = 0, portion = 0;
};
#endif

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_GEMMPACKING_H
