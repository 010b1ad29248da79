//===- SizedDuration.h - Measured durations by size --------------*- C++ -*-===//

#ifndef FSDP_COSTMODEL_SIZEDDURATION_H
#define FSDP_COSTMODEL_SIZEDDURATION_H

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <vector>

namespace fsdp::cost {

/// A duration from several measurements: the median and the relative spread of the samples
/// (1.4826 x the median absolute deviation / the median, which estimates the standard deviation of
/// normal samples and ignores outliers).
struct SizedDuration {
  int64_t size = 0; // bytes, or elements
  double medianNs = 0;
  double spread = 0;
  int64_t samples = 0;
};

/// The median; of an even number of values the larger middle one. Needs at least one value.
double medianOf(std::vector<double> values);

/// The median and spread of samples. Needs at least one sample.
SizedDuration summarize(llvm::ArrayRef<double> durationsNs, int64_t size = 0);

/// The duration at `size`: linear between two measured sizes, proportional to the nearest one
/// outside. `durations` has at least one element; sizes are positive and increase.
double interpolate(llvm::ArrayRef<SizedDuration> durations, int64_t size);

} // namespace fsdp::cost

#endif // FSDP_COSTMODEL_SIZEDDURATION_H
