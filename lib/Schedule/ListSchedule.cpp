//===- ListSchedule.cpp - From decisions to positions ---------------------===//

#include "fsdp/Schedule/ListSchedule.h"

#include "Placement.h"
#include "fsdp/Schedule/Simulate.h"

#include <cassert>

using namespace fsdp::schedule;

ListScheduler::ListScheduler(const Problem &problem)
    : context(std::make_unique<TaskContext>(problem)) {}

ListScheduler::~ListScheduler() = default;

ListScheduleResult ListScheduler::operator()(const Decisions &decisions) const {
  std::optional<Tasks> tasks = makeTasks(*context, decisions);
  if (!tasks)
    return {};
  Placement placement(*context, decisions, *tasks);
  if (!placement.run()) {
    assert(false && "the tasks' room was not respected");
    return {};
  }
  ListScheduleResult result;
  result.plan = placement.takePlan();
  result.makespanNs = makespanNs(context->problem, *result.plan);
  return result;
}

ListScheduleResult fsdp::schedule::listSchedule(const Problem &problem,
                                                const Decisions &decisions) {
  return ListScheduler(problem)(decisions);
}
