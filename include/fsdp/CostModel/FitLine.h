//===- FitLine.h - Latency and rate from measured durations -----*- C++ -*-===//

#ifndef FSDP_COSTMODEL_FITLINE_H
#define FSDP_COSTMODEL_FITLINE_H

#include "fsdp/CostModel/SizedDuration.h"

namespace fsdp::cost {

struct Line {
  double latencyNs = 0, nsPerUnit = 0;
};

/// The line without negative coefficients that minimizes the sum of absolute *relative* deviations
/// from the medians. Small sizes thus count as much as large ones, and one outlier has no effect.
/// Exact, in cubic time: some best line passes through two of the points, or through one point with
/// one coefficient zero. Needs at least one duration; all durations are positive.
Line fitLine(llvm::ArrayRef<SizedDuration> durations);

/// The same among the lines that lie above no median.
Line fitLineBelow(llvm::ArrayRef<SizedDuration> durations);

} // namespace fsdp::cost

#endif // FSDP_COSTMODEL_FITLINE_H
