//===- FitLine.h - Latency and rate from measured durations -----*- C++ -*-===//

#ifndef FSDP_COSTMODEL_FITLINE_H
#define FSDP_COSTMODEL_FITLINE_H

#include "fsdp/CostModel/SizedDuration.h"

namespace fsdp::cost {

struct Line {
  double latencyNs = 0, nsPerUnit = 0;
};

/// The line, without negative coefficients, whose absolute *relative* deviations from the medians
/// have the least sum, so that small sizes count as much as large ones and one outlier moves
/// nothing. Exact, in cubic time: some best line passes through two of the points, or through one
/// with one coefficient zero. At least one duration; all durations positive.
Line fitLine(llvm::ArrayRef<SizedDuration> durations);

/// The same among the lines that exceed no median.
Line fitLineBelow(llvm::ArrayRef<SizedDuration> durations);

} // namespace fsdp::cost

#endif // FSDP_COSTMODEL_FITLINE_H
