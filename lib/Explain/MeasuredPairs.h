//===- MeasuredPairs.h - Pairs of predicted and measured times --*- C++ -*-===//

#ifndef FSDP_EXPLAIN_MEASUREDPAIRS_H
#define FSDP_EXPLAIN_MEASUREDPAIRS_H

#include "fsdp/Explain/MeasuredStep.h"

#include <cmath>

namespace fsdp::explain {

/// A predicted and a measured time, in nanoseconds.
struct TimePair {
  double predictedNs = 0, measuredNs = 0;
  double difference() const { return std::abs(predictedNs - measuredNs); }
};

struct BlockTimes : TimePair {
  std::string name;
  StepPart part = StepPart::Forward;
};

struct CollectiveTimes : TimePair {
  std::string name; // for messages
  StepPart part = StepPart::Forward;
  int64_t sizeBytes = 0;
  TimePair exposed;
  schedule::Interval measured;
  bool isAcross = false; // the all-reduce over replicas
};

/// Each block of modules, forward and backward, in the order of the step.
std::vector<BlockTimes> pairBlocks(const ScheduleView &view, const MeasuredStep &measured);

/// Each collective of the view in its order; a reduction is followed by its all-reduce over
/// replicas. An error if the trace has another mesh or other collectives.
llvm::Expected<std::vector<CollectiveTimes>> pairCollectives(const ScheduleView &view,
                                                             const MeasuredStep &measured);

/// The measured operations and collectives as a view. Collectives have the groups, sizes and order
/// of the prediction; `pairs` is the result of pairCollectives.
ScheduleView viewMeasuredStep(const ScheduleView &predicted, const MeasuredStep &measured,
                              const std::vector<CollectiveTimes> &pairs);

} // namespace fsdp::explain

#endif // FSDP_EXPLAIN_MEASUREDPAIRS_H
