//===- StepDifference.h - What two schedules decide otherwise ----*- C++ -*-===//
//
// A step takes what its operations take alone, what they take longer beside collectives, and what
// they wait for collectives. So the difference between two steps is the sum of what each gather,
// each reduction and the computation of each block costs more or less.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EXPLAIN_STEPDIFFERENCE_H
#define FSDP_EXPLAIN_STEPDIFFERENCE_H

#include "fsdp/Explain/ScheduleDiff.h"

namespace fsdp::explain {

/// What moves the same parameters in both steps, or what one block of modules computes.
struct StepDifference {
  /// The sort of the difference: "kept", "gather buckets", "computation".
  std::string what;
  StepPart part = StepPart::Forward;
  std::vector<std::string> names; // of groups, or of the block
  std::string left, right;        // what each step does, for people
  double leftNs = 0, rightNs = 0; // of each step
  double laneNs = 0;              // by how much longer collectives take in the right
  std::vector<uint32_t> leftCollectives, rightCollectives; // indices into the views'
  bool isComputation = false;                              // of the block

  double getChangeNs() const { return rightNs - leftNs; }
};

struct StepComparison {
  /// Collectives of both that have parameters in common, in the same use of these.
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  std::vector<StepDifference> differences; // those that change the step's time most first
  /// The change of the step's time by collectives that both steps have at the same place.
  double sameNs = 0;
};

/// Of each collective, how long computation waits for it, and by how much it slows the operations
/// that run at the same time.
std::vector<double> getCollectiveCosts(const ScheduleSide &side);

/// The changes of all differences and `sameNs` add up to the change of the steps' times, but for
/// waits of the computation that no collective causes.
StepComparison compareSteps(const ScheduleSide &left, const ScheduleSide &right);

/// By the change of the step's time, then of the lanes'.
void sortByCost(std::vector<StepDifference> &differences);

} // namespace fsdp::explain

#endif // FSDP_EXPLAIN_STEPDIFFERENCE_H
