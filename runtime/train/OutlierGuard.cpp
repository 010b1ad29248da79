//===- OutlierGuard.cpp - Steps that are unlike those before --------------===//

#include "train/OutlierGuard.h"

#include <cmath>
#include <cstdio>
#include <string>

using namespace fsdp::rt;

Status OutlierGuard::check(int64_t step, const char *what, double value, Window &window) const {
  char text[256];
  if (!std::isfinite(value)) {
    std::snprintf(text, sizeof(text), "step %lld: the %s is %g (--stop-outliers %g)",
                  static_cast<long long>(step), what, value, limit);
    return Status::error(text);
  }
  if (window.numbers.size() < kWindow) {
    window.numbers.push_back(value);
    return {};
  }
  // Anew each time: running sums would carry rounding errors of all steps before.
  double sum = 0, squares = 0;
  for (double number : window.numbers)
    sum += number;
  const double mean = sum / kWindow;
  for (double number : window.numbers)
    squares += (number - mean) * (number - mean);
  const double deviation = std::sqrt(squares / kWindow);
  if (value - mean > limit * deviation) {
    std::snprintf(text, sizeof(text),
                  "step %lld: the %s is %g, but the %zu steps before have %g on average, with a "
                  "standard deviation of %g (--stop-outliers %g)",
                  static_cast<long long>(step), what, value, kWindow, mean, deviation, limit);
    return Status::error(text);
  }
  window.numbers[window.next] = value;
  window.next = (window.next + 1) % kWindow;
  return {};
}

Status OutlierGuard::check(int64_t step, double loss, double gradientNorm) {
  if (Status status = check(step, "loss", loss, losses); !status.ok())
    return status;
  return check(step, "gradients' norm", gradientNorm, norms);
}
