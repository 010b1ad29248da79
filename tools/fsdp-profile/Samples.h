//===- Samples.h - Median and spread of measured durations -------*- C++ -*-===//

#ifndef FSDP_TOOLS_PROFILE_SAMPLES_H
#define FSDP_TOOLS_PROFILE_SAMPLES_H

#include "fsdp/CostModel/FitLine.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace fsdp::profile {

inline double medianOf(std::vector<double> values) {
  auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// At least one sample.
inline cost::SizedDuration summarize(const std::vector<double> &durationsNs, int64_t size = 0) {
  constexpr double kDeviationsPerMedianDeviation = 1.4826;
  double median = medianOf(durationsNs);
  std::vector<double> deviations;
  for (double duration : durationsNs)
    deviations.push_back(std::abs(duration - median));
  double spread =
      median > 0 ? kDeviationsPerMedianDeviation * medianOf(std::move(deviations)) / median : 0;
  return {size, median, spread, static_cast<int64_t>(durationsNs.size())};
}

} // namespace fsdp::profile

#endif // FSDP_TOOLS_PROFILE_SAMPLES_H
