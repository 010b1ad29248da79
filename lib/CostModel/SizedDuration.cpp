//===- SizedDuration.cpp - Measured durations by size ----------------------===//

#include "fsdp/CostModel/SizedDuration.h"

#include <algorithm>
#include <cmath>

using namespace fsdp::cost;

double fsdp::cost::medianOf(std::vector<double> values) {
  auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

SizedDuration fsdp::cost::summarize(llvm::ArrayRef<double> durationsNs, int64_t size) {
  // For normal samples: the ratio of standard deviation and median absolute deviation.
  constexpr double kStandardDeviations = 1.4826;
  double median = medianOf(durationsNs.vec());
  std::vector<double> deviations;
  for (double duration : durationsNs)
    deviations.push_back(std::abs(duration - median));
  double spread = median > 0 ? kStandardDeviations * medianOf(std::move(deviations)) / median : 0;
  return {size, median, spread, static_cast<int64_t>(durationsNs.size())};
}

double fsdp::cost::interpolate(llvm::ArrayRef<SizedDuration> durations, int64_t size) {
  auto after = std::lower_bound(durations.begin(), durations.end(), size,
                                [](const SizedDuration &d, int64_t s) { return d.size < s; });
  double x = static_cast<double>(size);
  auto proportional = [&](const SizedDuration &nearest) {
    return nearest.medianNs * x / static_cast<double>(nearest.size);
  };
  if (after == durations.begin())
    return proportional(durations.front());
  if (after == durations.end())
    return proportional(durations.back());
  const SizedDuration &before = *(after - 1);
  double share =
      static_cast<double>(size - before.size) / static_cast<double>(after->size - before.size);
  return before.medianNs + share * (after->medianNs - before.medianNs);
}
