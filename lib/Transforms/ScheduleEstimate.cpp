//===- ScheduleEstimate.cpp - Estimates of a search's result --------------===//

#include "fsdp/Transforms/ScheduleEstimate.h"

#include "fsdp/Analysis/ScheduleProblem.h"
#include "fsdp/Schedule/Policies.h"
#include "fsdp/Transforms/PrepareSearch.h"

using namespace mlir;
using namespace fsdp;

FailureOr<ScheduleEstimate> fsdp::estimateSchedule(ModuleOp sharded, const cost::CostModel &costs) {
  FailureOr<StepMemory> memory = prepareSearch(sharded);
  if (failed(memory))
    return failure();
  FailureOr<ScheduleProblem> step =
      getScheduleProblem(sharded, *memory, costs, UpdatePlacement::Interleaved);
  if (failed(step))
    return failure();
  const schedule::Problem &problem = step->problem;
  std::optional<schedule::Plan> plan = schedule::planByPolicy(problem, schedule::Policy::Asap);
  if (!plan)
    return failure();
  ScheduleEstimate estimate;
  estimate.boundNs = schedule::quickBound(problem).makespanNs;
  estimate.makespanNs = schedule::makespanNs(problem, *plan);
  estimate.leastPeakBytes = estimate.mostPeakBytes = problem.minimumPeak().bytes;
  for (const schedule::Group &group : problem.groups)
    estimate.mostPeakBytes += group.gatheredBytes;
  for (const schedule::Reduction &reduction : problem.reductions)
    estimate.mostPeakBytes += reduction.inputBytes + reduction.outputBytes;
  return estimate;
}
