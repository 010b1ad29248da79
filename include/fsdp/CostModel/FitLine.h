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

/// The line that minimises the absolute *relative* deviations of the medians (iteratively
/// reweighted least squares), so that small sizes count as much as large ones and one outlier moves
/// nothing. Neither coefficient is negative. At least one duration; one gives a line through the
/// origin.
Line fitLine(llvm::ArrayRef<SizedDuration> durations);

/// The duration at `size`: between two measured sizes on the straight line through them, outside in
/// proportion to the nearest. `durations` has at least one element, sizes increase and are
/// positive.
double interpolate(llvm::ArrayRef<SizedDuration> durations, int64_t size);

} // namespace fsdp::cost

#endif // FSDP_COSTMODEL_FITLINE_H
