//===- Annealing.h - Which worse moves are accepted ----------------*- C++ -*-===//

#ifndef FSDP_LIB_SCHEDULE_ANNEALING_H
#define FSDP_LIB_SCHEDULE_ANNEALING_H

#include "Simulate/Draws.h"

namespace fsdp::schedule {

/// The rule of Metropolis et al. 1953. The temperature is controlled so that the accepted share of
/// the worse moves falls to 0 over the search, because the losses of moves differ by orders of
/// magnitude between problems. Uses no functions of the C library, whose last bits differ between
/// machines.
class Annealing {
public:
  /// `share` is the accepted share of the worse moves at the start.
  Annealing(double firstTemperatureNs, double share)
      : temperatureNs(firstTemperatureNs), share(share) {}

  /// `lossNs` is the makespan that the move adds; `progress` goes from 0 to 1 over the search.
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
  /// An exponential variable of mean 1, by comparisons alone (von Neumann 1951).
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
