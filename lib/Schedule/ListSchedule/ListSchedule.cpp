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
      plain(std::make_shared<TaskContext>(problem)), last(plain) {}

ListScheduler::~ListScheduler() = default;

/// Consecutive decisions nearly always gather the same uses from chunks, so one context is cached.
std::shared_ptr<const TaskContext> ListScheduler::findContext(const Decisions &decisions) const {
  if (decisions.chunked.empty() || !mayChunkAll(*plain, decisions))
    return plain;
  std::lock_guard lock(mutex);
  if (last->chunked != decisions.chunked)
    last = std::make_shared<TaskContext>(problem, decisions.chunked);
  return last;
}

ListScheduleResult ListScheduler::operator()(const Decisions &decisions) const {
  const std::shared_ptr<const TaskContext> context = findContext(decisions);
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
