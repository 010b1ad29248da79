//===- MeasuredPairs.h - Pairs of predicted and measured times --*- C++ -*-===//

#ifndef FSDP_EXPLAIN_MEASUREDPAIRS_H
#define FSDP_EXPLAIN_MEASUREDPAIRS_H

#include "fsdp/Explain/MeasuredStep.h"

#include <cmath>
#include <map>

namespace fsdp::explain {

/// A predicted time and the measured ones of each step, in nanoseconds.
struct TimePair {
  double predictedNs = 0;
  std::vector<double> ofSteps;

  double getMeasuredNs() const; // the median
  double getDifferenceNs() const { return std::abs(predictedNs - getMeasuredNs()); }
  void add(const TimePair &other);
};

/// The computation of a block: its operations, and the compute stream's time before each of them.
struct BlockTimes : TimePair {
  std::string name;
  StepPart part = StepPart::Forward;
  double slowdownNs = 0; // part of the prediction: by collectives at the same time
  TimePair between;      // part of the measured time: before operations; without a prediction
};

struct CollectiveTimes : TimePair {
  std::string kind; // "all_gather", "reduce_scatter", "all_reduce"
  std::vector<std::string> groups;
  std::string name; // for people
  StepPart part = StepPart::Forward;
  int64_t sizeBytes = 0;
  TimePair exposed;
  bool isAcross = false;                     // the all-reduce over replicas
  std::vector<schedule::Interval> intervals; // of each step
};

/// Each block of modules, forward and backward, in the order of the step.
std::vector<BlockTimes> pairBlocks(const schedule::Problem &problem, const ScheduleView &view,
                                   const MeasuredRun &measured);

/// Each collective of the view in its order; a reduction is followed by its all-reduce over
/// replicas. An error if the trace has another mesh or other collectives.
llvm::Expected<std::vector<CollectiveTimes>> pairCollectives(const ScheduleView &view,
                                                             const MeasuredRun &measured);

/// The step, all of its computation and all waits for collectives. Shares are sums of absolute
/// errors, which cannot cancel out, divided by the measured sum.
struct MeasuredErrors {
  TimePair step, computation, waits;
  TimePair between;      // part of the measured computation
  double slowdownNs = 0; // part of the predicted computation
  struct OfKind {
    TimePair work, exposed;
  };
  std::map<std::string, OfKind> collectives;        // by kind
  double waitsOneByOneNs = 0;                       // sum of absolute errors over collectives
  double shareOfBlocks = 0, shareOfCollectives = 0; // 0 without any
};

MeasuredErrors sumErrors(const ScheduleView &view, const MeasuredRun &measured,
                         const std::vector<BlockTimes> &blocks,
                         const std::vector<CollectiveTimes> &collectives);

/// The operations and collectives of the step of median duration as a view. Collectives have the
/// groups, sizes and order of the prediction; `pairs` is the result of pairCollectives.
ScheduleView viewMedianStep(const ScheduleView &predicted, const MeasuredRun &measured,
                            const std::vector<CollectiveTimes> &pairs);

} // namespace fsdp::explain

#endif // FSDP_EXPLAIN_MEASUREDPAIRS_H
