//===- OutlierGuard.cpp - Finds steps that are outliers -------------------===//

#include "train/OutlierGuard.h"

#include <cmath>
#include <cstdio>
#include <utility>

using namespace fsdp::rt;

OutlierGuard::OutlierGuard(std::string flag, double limit, GuardWindow window)
    : flag(std::move(flag)), limit(limit), seen(std::move(window)) {}

std::string OutlierGuard::judge(int64_t step, const char *what, double value,
                                std::vector<double> &before) const {
  char text[256];
  if (!std::isfinite(value)) {
    std::snprintf(text, sizeof(text), "step %lld: the %s is %s (%s %g)",
                  static_cast<long long>(step), what, // a NaN's sign has no meaning
                  std::isnan(value) ? "nan"
                  : value > 0       ? "inf"
                                    : "-inf",
                  flag.c_str(), limit);
    return text;
  }
  std::string outlier;
  if (before.size() == GuardWindow::kSteps) {
    constexpr auto kCount = static_cast<double>(GuardWindow::kSteps);
    // Computed anew each time: running sums would accumulate the rounding errors of all earlier
    // steps.
    double sum = 0, squares = 0;
    for (double number : before)
      sum += number;
    const double mean = sum / kCount;
    for (double number : before)
      squares += (number - mean) * (number - mean);
    const double deviation = std::sqrt(squares / kCount);
    if (value - mean > limit * deviation) {
      std::snprintf(text, sizeof(text),
                    "step %lld: the %s is %g, but the %zu steps before have %g on average, with a "
                    "standard deviation of %g (%s %g)",
                    static_cast<long long>(step), what, value, GuardWindow::kSteps, mean, deviation,
                    flag.c_str(), limit);
      outlier = text;
    }
    before.erase(before.begin());
  }
  before.push_back(value);
  return outlier;
}

std::string OutlierGuard::judge(int64_t step, double loss, double gradientNorm) {
  const std::string ofLoss = judge(step, "loss", loss, seen.losses),
                    ofNorm = judge(step, "gradients' norm", gradientNorm, seen.norms);
  return ofLoss.empty() ? ofNorm : ofLoss;
}
