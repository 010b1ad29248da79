//===- FitLine.h - Latency and rate from measured durations -----*- C++ -*-===//

#ifndef FSDP_COSTMODEL_FITLINE_H
#define FSDP_COSTMODEL_FITLINE_H

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>

namespace fsdp::cost {

/// A duration that was measured several times: the median, and how far samples lie from it
/// (1.4826 x the median absolute deviation, relative to the median: the standard deviation, were
/// the samples normal; outliers do not count).
struct SizedDuration {
  int64_t size = 0; // bytes, or elements
  double medianNs = 0;
  double spread = 0;
  int64_t samples = 0;
};

struct Line {
  double latencyNs = 0, nsPerUnit = 0;
};

/// The line, without negative coefficients, whose absolute *relative* deviations from the medians
/// have the least sum, so that small sizes count as much as large ones and one outlier moves
/// nothing. Exact, in cubic time: some best line passes through two of the points, or through one
/// with one coefficient zero. At least one duration; all durations positive.
Line fitLine(llvm::ArrayRef<SizedDuration> durations);

/// The duration at `size`: between two measured sizes on the straight line through them, outside in
/// proportion to the nearest. `durations` has at least one element, sizes increase and are
/// positive.
double interpolate(llvm::ArrayRef<SizedDuration> durations, int64_t size);

} // namespace fsdp::cost

#endif // FSDP_COSTMODEL_FITLINE_H
