//===- OutlierGuard.h - Steps that are unlike those before -------*- C++ -*-===//
//
// As llm.c's outlier detector (llmc/outlier_detector.h): the z-score of a number is its distance to
// the mean of the 128 numbers before it, in their standard deviations. A step that was left out
// counts among these, if its numbers are finite: a level that stays is no outlier for long.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_OUTLIERGUARD_H
#define FSDP_RUNTIME_OUTLIERGUARD_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fsdp::rt {

/// What a guard compares with: the numbers of the last steps, the oldest first.
struct GuardWindow {
  static constexpr size_t kSteps = 128;
  std::vector<double> losses, norms;
};

class OutlierGuard {
public:
  /// Numbers more than `limit` standard deviations above the mean are outliers. `flag`: what asks
  /// for the guard, for messages. `window`: of the steps before.
  OutlierGuard(std::string flag, double limit, GuardWindow window = {});

  /// Why a step is an outlier, for people: its loss or its gradients' norm is not finite or, where
  /// the window is full, too far above the steps before. "" if it is none.
  std::string judge(int64_t step, double loss, double gradientNorm);

  const GuardWindow &window() const { return seen; }

private:
  std::string judge(int64_t step, const char *what, double value,
                    std::vector<double> &before) const;

  std::string flag;
  double limit;
  GuardWindow seen;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_OUTLIERGUARD_H
