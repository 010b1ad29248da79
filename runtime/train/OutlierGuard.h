//===- OutlierGuard.h - Steps that are unlike those before -------*- C++ -*-===//
//
// As llm.c's outlier detector (llmc/outlier_detector.h): the z-score of a number is its distance to
// the mean of the 128 numbers before it, in their standard deviations.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_OUTLIERGUARD_H
#define FSDP_RUNTIME_OUTLIERGUARD_H

#include "Status.h"

#include <cstdint>
#include <vector>

namespace fsdp::rt {

class OutlierGuard {
public:
  static constexpr size_t kWindow = 128;

  /// Numbers more than `limit` standard deviations above the mean are refused.
  explicit OutlierGuard(double limit) : limit(limit) {}

  /// An error if the loss or the gradients' norm of a step is not finite or, from step
  /// kWindow + 1 of those that were seen, too far above the ones before.
  Status check(int64_t step, double loss, double gradientNorm);

private:
  /// The last numbers, the oldest at `next`.
  struct Window {
    std::vector<double> numbers;
    size_t next = 0;
  };
  Status check(int64_t step, const char *what, double value, Window &window) const;

  double limit;
  Window losses, norms;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_OUTLIERGUARD_H
