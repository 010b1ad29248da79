//===- FitLine.cpp - Latency and rate from measured durations -------------===//

#include "fsdp/CostModel/FitLine.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace fsdp::cost;

static double sumDeviations(llvm::ArrayRef<SizedDuration> durations, const Line &line) {
  double sum = 0;
  for (const SizedDuration &duration : durations) {
    double modelled = line.latencyNs + line.nsPerUnit * static_cast<double>(duration.size);
    sum += std::abs(modelled - duration.medianNs) / duration.medianNs;
  }
  return sum;
}

static bool isBelow(llvm::ArrayRef<SizedDuration> durations, const Line &line) {
  constexpr double kRounding = 1e-12; // for lines that pass through medians
  return llvm::all_of(durations, [&](const SizedDuration &duration) {
    return line.latencyNs + line.nsPerUnit * static_cast<double>(duration.size) <=
           duration.medianNs * (1 + kRounding);
  });
}

static Line fit(llvm::ArrayRef<SizedDuration> durations, bool below) {
  Line best;
  double least = INFINITY;
  auto consider = [&](const Line &line) {
    if (line.latencyNs < 0 || line.nsPerUnit < 0 || (below && !isBelow(durations, line)))
      return;
    if (double sum = sumDeviations(durations, line); sum < least) {
      least = sum;
      best = line;
    }
  };
  for (const SizedDuration &one : durations) {
    consider({0, one.medianNs / static_cast<double>(one.size)});
    consider({one.medianNs, 0});
    for (const SizedDuration &other : durations)
      if (other.size > one.size) {
        double slope = (other.medianNs - one.medianNs) / static_cast<double>(other.size - one.size);
        consider({one.medianNs - slope * static_cast<double>(one.size), slope});
      }
  }
  return best;
}

Line fsdp::cost::fitLine(llvm::ArrayRef<SizedDuration> durations) { return fit(durations, false); }

Line fsdp::cost::fitLineBelow(llvm::ArrayRef<SizedDuration> durations) {
  return fit(durations, true);
}
