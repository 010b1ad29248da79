//===- ListSchedule.cpp - From decisions to positions ---------------------===//

#include "fsdp/Schedule/ListSchedule.h"

#include "Placement.h"
#include "Simulate/Replay.h"

#include <cassert>

using namespace fsdp::schedule;

namespace {

/// The problem's durations, with sums over runs of operations.
struct SummedDurations : NominalDurations {
  const TaskContext &context;
  double ofOperations(uint32_t first, uint32_t end) const {
    return context.beginNs[end] - context.beginNs[first];
  }
};

} // namespace

ListScheduler::ListScheduler(const Problem &problem, std::optional<int64_t> maxBucketBytes)
    : problem(problem), maxBucketBytes(maxBucketBytes),
      context(std::make_unique<TaskContext>(problem)) {}

ListScheduler::~ListScheduler() = default;

ListScheduleResult ListScheduler::operator()(const Decisions &decisions) {
  if (!isComplete(*context, decisions))
    return {};
  // Consecutive decisions nearly always gather the same uses from chunks.
  if (context->chunked != decisions.chunked)
    context = std::make_unique<TaskContext>(problem, decisions.chunked);
  std::optional<Tasks> tasks = makeTasks(*context, decisions, maxBucketBytes);
  if (!tasks)
    return {};
  Placement placement(*context, decisions, *tasks);
  if (!placement.run()) {
    assert(false && "the tasks' room was not respected");
    return {};
  }
  ListScheduleResult result;
  result.plan = placement.takePlan();
  result.makespanNs = replay(context->problem, *result.plan,
                             SummedDurations{{context->problem, result.plan->chunked}, *context});
  return result;
}

ListScheduleResult fsdp::schedule::listSchedule(const Problem &problem,
                                                const Decisions &decisions) {
  return ListScheduler(problem)(decisions);
}
