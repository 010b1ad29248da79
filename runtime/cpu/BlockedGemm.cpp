//===- BlockedGemm.cpp - fp32 matrix products with AVX-512 ----------------===//

#include "cpu/BlockedGemm.h"
#include "cpu/GemmPacking.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <numeric>

using namespace fsdp::rt;

static constexpr int64_t kBlockColumns = 11 * kTileColumns; // of B, packed at a time
static constexpr int64_t kBlockRows = 8 * kTileRows;        // of A, packed at a time

#if defined(__x86_64__)
// Prefetch distances.
static constexpr int64_t kRowsAhead = 8;         // of B, or columns of A that are read as such
static constexpr int64_t kColumnsAhead = 32;     // of rows of A
static constexpr int64_t kColumnsBeforeEnd = 64; // of a tile, for C

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

namespace {
/// A panel of kTileRows rows of A and one of kTileColumns columns of B, packed or in place.
/// `aStride` is the distance between rows of A if A is read by rows, else between columns; the
/// elements of a row, or of a column, are adjacent. `bStride` is the distance between rows.
struct Panels {
  const float *a;
  int64_t aStride;
  const float *b;
  int64_t bStride;
};

/// The next column of A and the next row of B.
template <int Rows, int Vectors, bool ByRows> struct Cursor {
  // One pointer for each three rows: more addresses do not fit in registers.
  static constexpr int kPointers = ByRows ? (Rows + 2) / 3 : 1;
  std::array<const float *, kPointers> a;
  int64_t aStride;
  const float *b;
  int64_t bStride;

  explicit Cursor(const Panels &panels)
      : aStride(panels.aStride), b(panels.b), bStride(panels.bStride) {
    for (int i = 0; i < kPointers; ++i)
      a[i] = panels.a + 3 * i * aStride;
  }

  const float *row(int i) const { return a[i / 3] + i % 3 * aStride; }

  /// Adds the products of one column of A and one row of B.
  FSDP_AVX512 [[gnu::always_inline]] void addProducts(Vector (&sum)[Rows][Vectors]) {
    Vector values[Vectors];
#pragma GCC unroll 8
    for (int j = 0; j < Vectors; ++j) {
      values[j] = _mm512_loadu_ps(b + j * kLanes);
      prefetch(b + kRowsAhead * bStride + j * kLanes);
    }
    if (!ByRows)
      prefetch(a[0] + kRowsAhead * aStride);
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
      Vector factor = _mm512_set1_ps(ByRows ? *row(i) : a[0][i]);
#pragma GCC unroll 8
      for (int j = 0; j < Vectors; ++j)
        sum[i][j] = _mm512_fmadd_ps(factor, values[j], sum[i][j]);
    }
    // The empty assembly keeps the compiler from making a pointer for each load.
    b += bStride;
    asm("" : "+r"(b));
    for (const float *&pointer : a) {
      pointer += ByRows ? 1 : aStride;
      asm("" : "+r"(pointer));
    }
  }

  /// The same for `count` columns and rows.
  FSDP_AVX512 [[gnu::always_inline]] void addProducts(Vector (&sum)[Rows][Vectors], int64_t count) {
    if constexpr (ByRows && Rows == kTileRows)
      for (; count >= kTileRows; count -= kTileRows)
#pragma GCC unroll 8
        for (int i = 0; i < Rows; ++i) {
          prefetch(row(i) + kColumnsAhead);
          addProducts(sum);
        }
    for (; count > 0; --count)
      addProducts(sum);
  }
};
} // namespace

// All loops over a tile are unrolled, so that the sums stay in registers.

/// To what the sums of a block are added.
enum class AddTo { Nothing, Zero, C };

/// Computes `Rows` rows of a tile of `Vectors` vectors; `mask` are the lanes of the last vector.
template <int Rows, int Vectors, bool ByRows>
FSDP_AVX512 static void computeTile(const Panels &panels, float *c, int64_t stride, int64_t depth,
                                    AddTo addTo, __mmask16 mask) {
  Cursor<Rows, Vectors, ByRows> cursor(panels);
  Vector sum[Rows][Vectors];
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < Vectors; ++j)
      sum[i][j] = _mm512_setzero_ps();
  // C is prefetched from memory, but not too early, since a panel of B is larger than the
  // first-level cache. One line at a time, so that loads of B, which is in a near cache, do not
  // queue behind it.
  const int64_t early = std::max<int64_t>(depth - kColumnsBeforeEnd, 0);
  const int64_t lines = std::min<int64_t>(Rows * Vectors, depth - early);
  cursor.addProducts(sum, early);
  for (int64_t i = 0; i < lines; ++i) {
    prefetch(c + i / Vectors * stride + i % Vectors * kLanes);
    cursor.addProducts(sum);
  }
  cursor.addProducts(sum, depth - early - lines);
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < Vectors; ++j) {
      float *to = c + i * stride + j * kLanes;
      __mmask16 lanes = j == Vectors - 1 ? mask : __mmask16(0xffff);
      Vector result = sum[i][j];
      if (addTo != AddTo::Nothing) {
        Vector before = addTo == AddTo::C ? _mm512_maskz_loadu_ps(lanes, to) : _mm512_setzero_ps();
        result = _mm512_add_ps(before, result);
      }
      _mm512_mask_storeu_ps(to, lanes, result);
    }
}

using TileKernel = void (*)(const Panels &, float *, int64_t, int64_t, AddTo, __mmask16);
#define FSDP_ROW(rows, byRows)                                                                     \
  {computeTile<rows, 1, byRows>, computeTile<rows, 2, byRows>, computeTile<rows, 3, byRows>}
#define FSDP_ROWS(byRows)                                                                          \
  {FSDP_ROW(1, byRows), FSDP_ROW(2, byRows), FSDP_ROW(3, byRows), FSDP_ROW(4, byRows),             \
   FSDP_ROW(5, byRows), FSDP_ROW(6, byRows), FSDP_ROW(7, byRows), FSDP_ROW(8, byRows)}
static constexpr TileKernel kTileKernels[2][kTileRows][kTileVectors] = {FSDP_ROWS(false),
                                                                        FSDP_ROWS(true)};

/// Multiplies a panel of A with the packed panels of B for a block of `columns` columns, adds the
/// products as `addTo` says, and writes the rows of C at `c`. Prefetches the next operands
/// meanwhile.
static void multiplyPanel(Panels panels, bool readsByRows, float *c, int64_t stride, int64_t rows,
                          int64_t columns, int64_t depth, AddTo addTo, BlockLines &linesOfA,
                          BlockLines &linesOfB) {
  for (int64_t j = 0; j < columns; j += kTileColumns) {
    int64_t width = std::min(kTileColumns, columns - j), vectors = (width + kLanes - 1) / kLanes;
    auto mask = static_cast<__mmask16>(0xffff >> (vectors * kLanes - width));
    panels.bStride = vectors * kLanes;
    kTileKernels[readsByRows][rows - 1][vectors - 1](panels, c + j, stride, depth, addTo, mask);
    panels.b += depth * vectors * kLanes;
    linesOfA.fetch();
    linesOfB.fetch();
  }
}

/// True if `count` cache lines `stride` floats apart stay in the second-level cache: not too many
/// of them share a set.
static bool stayInCache(int64_t count, int64_t stride) {
  constexpr int64_t kWayFloats = int64_t(128 << 10) / sizeof(float), kWays = 4; // at least twice
  return count <= kWays * (kWayFloats / std::gcd(stride, kWayFloats));
}

bool BlockedGemm::isSupported() { return hasAvx512(); }

void BlockedGemm::runPart(const GemmOperands &operands, const Part &part, float *workspace) const {
  // Blocks of columns are as equal as whole tiles allow.
  const int64_t blocks = (part.columns + kBlockColumns - 1) / kBlockColumns;
  const int64_t blockColumns = roundUp((part.columns + blocks - 1) / blocks, kTileColumns);
  const int64_t panels = (part.rows + kTileRows - 1) / kTileRows;
  // A is read in place if its elements are adjacent in one direction.
  const bool readsByRows = shape.a.column == 1;
  const bool packsA =
      !readsByRows && (shape.a.row != 1 || !stayInCache(std::min(depth, shape.k), shape.a.column));
  const bool canFetchB = shape.b.column == 1 || shape.b.row == 1;
  float *packedB = workspace, *packedA = workspace + kBlockColumns * std::min(depth, shape.k);
  for (int64_t matrix = 0; matrix < shape.batch; ++matrix) {
    float *c = operands.c + matrix * shape.c.batch + part.firstRow * shape.c.row + part.firstColumn;
    auto blockOfA = [&](int64_t i, int64_t k) -> Source {
      return {operands.a + matrix * shape.a.batch + (part.firstRow + i) * shape.a.row +
                  k * shape.a.column,
              shape.a.row, shape.a.column};
    };
    auto blockOfB = [&](int64_t k, int64_t j) -> Source {
      return {operands.b + matrix * shape.b.batch + k * shape.b.row +
                  (part.firstColumn + j) * shape.b.column,
              shape.b.row, shape.b.column};
    };
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
        const AddTo addTo = shape.hasBias || k > 0 ? AddTo::C
                            : addsToZero           ? AddTo::Zero
                                                   : AddTo::Nothing;
        packB(blockOfB(k, j), count, columns, packedB);
        // The next operands: the next block of B, the next panel of A.
        int64_t nextK = k + depth < shape.k ? k + depth : 0;
        int64_t nextJ = nextK ? j : j + blockColumns;
        int64_t tiles = (columns + kTileColumns - 1) / kTileColumns;
        BlockLines linesOfB;
        if (nextJ < part.columns && canFetchB)
          linesOfB = BlockLines(blockOfB(nextK, nextJ), std::min(depth, shape.k - nextK),
                                std::min(blockColumns, part.columns - nextJ), tiles * panels);
        for (int64_t i = 0; i < part.rows; i += kTileRows) {
          int64_t rows = std::min(kTileRows, part.rows - i);
          Panels operand{blockOfA(i, k).data, readsByRows ? shape.a.row : shape.a.column, packedB,
                         0};
          BlockLines linesOfA;
          if (packsA) {
            if (i % kBlockRows == 0)
              packA(blockOfA(i, k), std::min(kBlockRows, part.rows - i), count, packedA);
            operand.a = packedA + i % kBlockRows * count;
            operand.aStride = kTileRows;
          } else if (i + kTileRows < part.rows) {
            linesOfA = BlockLines(blockOfA(i + kTileRows, k),
                                  std::min(kTileRows, part.rows - i - kTileRows), count, tiles);
          } else if (nextJ < part.columns) {
            linesOfA = BlockLines(blockOfA(0, nextK), std::min(kTileRows, part.rows),
                                  std::min(depth, shape.k - nextK), tiles);
          }
          multiplyPanel(operand, readsByRows, c + i * shape.c.row + j, shape.c.row, rows, columns,
                        count, addTo, linesOfA, linesOfB);
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

BlockedGemm::BlockedGemm(const GemmShape &shape, GemmOrder order, int threads)
    : shape(shape), depth(order.depth), addsToZero(order.addsToZero),
      parts(static_cast<int>(std::clamp<int64_t>(
          std::max(shape.m / kBlockRows, shape.n / kTileColumns), 1, threads))) {}

/// The part of thread `index`: the longer side of C is cut in whole tiles.
BlockedGemm::Part BlockedGemm::partOf(int index) const {
  bool byRows = shape.m / kBlockRows >= shape.n / kTileColumns;
  int64_t length = byRows ? shape.m : shape.n;
  int64_t share = roundUp((length + parts - 1) / parts, byRows ? kTileRows : kTileColumns);
  int64_t first = std::min(share * index, length), count = std::min(share, length - first);
  return byRows ? Part{first, count, 0, shape.n} : Part{0, shape.m, first, count};
}

/// Workspace of one part, in floats, rounded up to cache lines.
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
