//===- FluidInstances.h - Steps for tests of the linear program -*- C++ -*-===//

#ifndef FSDP_TEST_SCHEDULE_FLUIDINSTANCES_H
#define FSDP_TEST_SCHEDULE_FLUIDINSTANCES_H

#include "fsdp/Schedule/LowerBound.h"

namespace fsdp::schedule {

constexpr double kTolerance = 1e-6;

/// `count` operations of 100 ns; a gather takes 10 ns and 1 ns per byte, a reduction as long.
inline Problem makeOperations(uint32_t count) {
  Problem problem;
  problem.operations.assign(count, {100, 0, 0});
  problem.meshes[0].gatherCost = problem.meshes[0].reduceCost = {10, 1};
  return problem;
}

inline void addUse(Problem &problem, int64_t sizeBytes, uint32_t operation) {
  problem.uses.push_back({uint32_t(problem.groups.size()), operation, operation});
  problem.groups.push_back({std::to_string(operation), sizeBytes, KeepRule::Free});
}

/// After the first operation a gather of 100 ns and a reduction of 200 ns have to happen before the
/// last one, beside two operations of 100 ns that leave `slackBytes`.
inline Problem makeConflict(int64_t slackBytes) {
  Problem problem = makeOperations(4);
  problem.meshes[0].gatherCost = problem.meshes[0].reduceCost = {0, 1};
  addUse(problem, 100, 0);
  addUse(problem, 100, 3);
  problem.reductions = {{0, 1, 3, 200, 0}};
  problem.operations = {{100, 1000, 0}, {100, 900, 900}, {100, 900, 900}, {100, 900, 900}};
  problem.memoryCapBytes = 900 + slackBytes;
  problem.operations[0].liveBytes += slackBytes - 250; // no room for the second copy
  return problem;
}

inline LowerBound fluid(const Problem &problem, bool coarsen = true, bool ignoreLatency = false) {
  FluidOptions options;
  options.coarsen = coarsen;
  options.ignoreLatency = ignoreLatency;
  return fluidBound(problem, options);
}

} // namespace fsdp::schedule

#endif // FSDP_TEST_SCHEDULE_FLUIDINSTANCES_H
