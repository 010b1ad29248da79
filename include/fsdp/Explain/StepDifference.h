//===- StepDifference.h - Differences between two schedules -----*- C++ -*-===//
//
// A step's duration is the sum of its operations' durations alone, their slowdown beside
// collectives, and their waits for collectives. So the difference between two steps is the sum of
// the cost differences of each gather, each reduction and the computation of each block.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EXPLAIN_STEPDIFFERENCE_H
#define FSDP_EXPLAIN_STEPDIFFERENCE_H

#include "fsdp/Explain/ScheduleDiff.h"

namespace fsdp::explain {

/// Collectives of the same parameters in both steps, or the computation of one block of modules.
struct StepDifference {
  /// The kind of the difference: "kept", "gather buckets", "computation".
  std::string what;
  StepPart part = StepPart::Forward;
  std::vector<std::string> names; // of groups, or of the block
  std::string left, right;        // the choice of each step, in words
  double leftNs = 0, rightNs = 0; // cost in each step
  double laneNs = 0;              // time on the lanes: right minus left
  std::vector<uint32_t> leftCollectives, rightCollectives; // indices into the views'
  bool isComputation = false;                              // of a block

  double getChangeNs() const { return rightNs - leftNs; }
};

struct StepComparison {
  /// Collectives of both steps that share parameters in the same use of these.
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  std::vector<StepDifference> differences; // by decreasing effect on the step's time
  /// The change of the step's time by collectives that are equal in both steps.
  double sameNs = 0;
};

/// The cost of each collective: the time that computation waits for it, and its slowdown of the
/// operations that run at the same time.
std::vector<double> getCollectiveCosts(const ScheduleSide &side);

/// All differences and `sameNs` sum to the change of the steps' times, except for waits of the
/// computation that no collective causes.
StepComparison compareSteps(const ScheduleSide &left, const ScheduleSide &right);

/// By the change of the step's time, then of the lanes' times.
void sortByCost(std::vector<StepDifference> &differences);

} // namespace fsdp::explain

#endif // FSDP_EXPLAIN_STEPDIFFERENCE_H
