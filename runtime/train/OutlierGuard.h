//===- OutlierGuard.h - Finds steps that are outliers --------- -*- C++ -*-===//
//
// As llm.c's outlier detector (llmc/outlier_detector.h): the z-score of a value is its distance
// from the mean of the 128 values before it, in standard deviations of these. A step whose update
// was left out counts among these, if its values are finite, so that a lasting new level soon is no
// outlier any more.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_OUTLIERGUARD_H
#define FSDP_RUNTIME_OUTLIERGUARD_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fsdp::rt {

/// The values of the last steps, with which a guard compares; the oldest first.
struct GuardWindow {
  static constexpr size_t kSteps = 128;
  std::vector<double> losses, norms;
};

class OutlierGuard {
public:
  /// Values more than `limit` standard deviations above the mean are outliers. `flag`: the flag
  /// that asks for the guard, for messages. `window`: values of earlier steps.
  OutlierGuard(std::string flag, double limit, GuardWindow window = {});

  /// The reason, for people, why a step is an outlier: its loss or gradient norm is not finite or,
  /// if the window is full, too far above earlier steps. "" if it is not an outlier.
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
