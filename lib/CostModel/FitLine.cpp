//===- FitLine.cpp - Latency and rate from measured durations -------------===//

#include "fsdp/CostModel/FitLine.h"

#include <algorithm>
#include <cmath>
#include <vector>

using namespace fsdp::cost;

static constexpr int kIterations = 50;
/// Relative deviations below this are noise and weigh alike.
static constexpr double kNoise = 1e-3;

/// Weighted least squares with coefficients that are not negative.
static Line solve(llvm::ArrayRef<SizedDuration> durations, llvm::ArrayRef<double> weights) {
  double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
  for (size_t i = 0; i < durations.size(); ++i) {
    double x = static_cast<double>(durations[i].size), y = durations[i].medianNs;
    w += weights[i];
    wx += weights[i] * x;
    wy += weights[i] * y;
    wxx += weights[i] * x * x;
    wxy += weights[i] * x * y;
  }
  double determinant = w * wxx - wx * wx;
  Line throughOrigin{0, wxx > 0 ? wxy / wxx : 0};
  if (determinant <= 1e-12 * w * wxx)
    return throughOrigin;
  Line line{(wxx * wy - wx * wxy) / determinant, (w * wxy - wx * wy) / determinant};
  if (line.latencyNs < 0)
    return throughOrigin;
  if (line.nsPerUnit < 0)
    return {wy / w, 0};
  return line;
}

Line fsdp::cost::fitLine(llvm::ArrayRef<SizedDuration> durations) {
  std::vector<double> weights(durations.size(), 1);
  Line line;
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    for (size_t i = 0; i < durations.size(); ++i) {
      double measured = std::max(durations[i].medianNs, 1e-9);
      double modelled = line.latencyNs + line.nsPerUnit * static_cast<double>(durations[i].size);
      double deviation = std::abs(modelled - measured) / measured;
      double scale = iteration == 0 ? 1 : 1 / std::max(deviation, kNoise);
      weights[i] = scale / (measured * measured);
    }
    line = solve(durations, weights);
  }
  return line;
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
