//===- RowKernels.h - Rows of fp32 numbers for AVX-512 -----------*- C++ -*-===//
//
// The loops of row operators, with the arithmetic of torch's CPU operators number by number.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_ROWKERNELS_H
#define FSDP_RUNTIME_ROWKERNELS_H

#include "cpu/RowOperator.h"

namespace fsdp::rt {

/// Sums take whole steps of this many columns.
constexpr int64_t kRowSumStep = 32;
/// Levels of partial sums, and how many numbers are added in one before it joins the next: as
/// torch's cascade of sums has them for up to kSumNumbers.
constexpr int64_t kSumLevels = 4, kSumStep = 16, kSumNumbers = int64_t(1) << 19;

/// True if this machine can run the kernels.
bool areRowKernelsSupported();

/// Some rows that a kernel reads, `stride` elements apart.
struct SourceRows {
  const float *data = nullptr;
  int64_t stride = 0;
};

/// Computes `count` rows of `columns` (of a sum: that it adds up) at `to`, `stride` elements apart.
/// `b` and `number`: where the operator has such.
using RowKernel = void (*)(SourceRows a, SourceRows b, float number, float *to, int64_t stride,
                           int64_t columns, int64_t count);

/// The kernel for anything but a Concatenate, which is a Copy of each part, and a ColumnSum. A
/// RowMean's `number` is that of its columns.
RowKernel rowKernelOf(const RowShape &shape);

/// Rows that are added up in order.
class ColumnSums {
public:
  /// Floats of memory for the partial sums of a row of `columns`.
  static int64_t partialSums(int64_t columns) { return kSumLevels * columns; }

  /// Sets the partial sums to zero.
  static void begin(float *partial, int64_t columns);
  /// Adds rows `first` to `first` + `count` - 1.
  static void add(float *partial, SourceRows input, int64_t columns, int64_t first, int64_t count);
  static void finish(const float *partial, float *output, int64_t columns);
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_ROWKERNELS_H
