//===- Annealing.h - Which steps are taken although they are worse -*- C++ -*-===//

#ifndef FSDP_LIB_SCHEDULE_ANNEALING_H
#define FSDP_LIB_SCHEDULE_ANNEALING_H

#include "Draws.h"

#include <algorithm>
#include <array>

namespace fsdp::schedule {

/// Metropolis et al. 1953, at temperatures that fall geometrically to a 60th of the first. Without
/// functions of the C library, whose last bits differ between machines.
class Annealing {
public:
  explicit Annealing(double firstTemperatureNs) {
    for (double ns = firstTemperatureNs; double &stage : temperaturesNs) {
      stage = ns;
      ns *= kFall;
    }
  }

  /// `lossNs` is how much slower the step's plan is, `progress` goes from 0 to 1.
  bool accepts(double lossNs, double progress, Draws &draws) const {
    size_t stage = std::min(size_t(progress * kStages), kStages - 1);
    return lossNs <= 0 || lossNs <= temperaturesNs[stage] * drawExponential(draws);
  }

private:
  /// By comparisons alone (von Neumann 1951).
  static double drawExponential(Draws &draws) {
    for (double whole = 0;; ++whole) {
      double first = draws.fraction(), least = first;
      for (bool isOdd = true;; isOdd = !isOdd) {
        double other = draws.fraction();
        if (other >= least) {
          if (isOdd)
            return whole + first;
          break;
        }
        least = other;
      }
    }
  }

  static constexpr size_t kStages = 64;
  static constexpr double kFall = .938;
  std::array<double, kStages> temperaturesNs;
};

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_ANNEALING_H
