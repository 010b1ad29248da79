//===- SearchBound.cpp - Branch and bound over keeping and merging --------===//

#include "FluidModel.h"

#include <algorithm>

using namespace fsdp::schedule;

/// Gaps below this are closed.
static constexpr double kClosedGap = 1e-4;

/// HiGHS takes choices for whole, and points for feasible, that miss it by up to this; the bound is
/// lowered by as much of the makespan.
static constexpr double kTolerance = 1e-6;

LowerBound fsdp::schedule::searchBound(const Problem &problem, double upperNs, int64_t nodeLimit) {
  LowerBound bound = fluidBound(problem, {});
  double targetNs = upperNs * (1 - kClosedGap);
  if (problem.operations.empty() || bound.makespanNs >= targetNs)
    return bound;
  FluidModel model = buildFluidModel(problem, {});
  // Only what beats the target is searched for. If there is nothing, the target is a bound.
  model.program.setUpper(model.makespan, targetNs / model.timeUnitNs);
  std::optional<double> makespan = model.program.branchAndBound(nodeLimit);
  if (!makespan)
    return bound;
  double makespanNs = std::min(*makespan * model.timeUnitNs, targetNs) * (1 - kTolerance);
  if (makespanNs > bound.makespanNs) {
    bound.makespanNs = makespanNs;
    bound.kind = BoundKind::Search;
  }
  return bound;
}
