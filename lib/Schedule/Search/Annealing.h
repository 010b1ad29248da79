//===- Annealing.h - Which steps are taken although they are worse -*- C++ -*-===//

#ifndef FSDP_LIB_SCHEDULE_ANNEALING_H
#define FSDP_LIB_SCHEDULE_ANNEALING_H

#include "Simulate/Draws.h"

namespace fsdp::schedule {

/// Metropolis et al. 1953, at temperatures by which a share of the worse steps is accepted that
/// falls to none: what steps cost differs by orders of magnitude from problem to problem. Without
/// functions of the C library, whose last bits differ between machines.
class Annealing {
public:
  /// `share` of the worse steps at first.
  Annealing(double firstTemperatureNs, double share)
      : temperatureNs(firstTemperatureNs), share(share) {}

  /// `lossNs` is how much slower the step's plan is, `progress` goes from 0 to 1.
  bool accepts(double lossNs, double progress, Draws &draws) {
    if (lossNs <= 0)
      return true;
    constexpr double kGain = .05;
    double wanted = share * (1 - progress) * (1 - progress);
    bool isAccepted = lossNs <= temperatureNs * drawExponential(draws);
    temperatureNs *= isAccepted ? 1 - kGain * (1 - wanted) : 1 + kGain * wanted;
    return isAccepted;
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

  double temperatureNs;
  const double share;
};

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_ANNEALING_H
