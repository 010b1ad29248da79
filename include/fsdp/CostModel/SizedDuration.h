//===- SizedDuration.h - Measured durations by size --------------*- C++ -*-===//

#ifndef FSDP_COSTMODEL_SIZEDDURATION_H
#define FSDP_COSTMODEL_SIZEDDURATION_H

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <vector>

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

/// Of an even number of values the larger of the two in the middle. At least one value.
double medianOf(std::vector<double> values);

/// What samples of one duration come to. At least one sample.
SizedDuration summarize(llvm::ArrayRef<double> durationsNs, int64_t size = 0);

/// The duration at `size`: between two measured sizes on the straight line through them, outside in
/// proportion to the nearest. `durations` has at least one element, sizes increase and are
/// positive.
double interpolate(llvm::ArrayRef<SizedDuration> durations, int64_t size);

} // namespace fsdp::cost

#endif // FSDP_COSTMODEL_SIZEDDURATION_H
