//===- ScheduleEvents.cpp - Events of a plan ------------------------------===//

#include "fsdp/Explain/ScheduleDiff.h"

#include <map>

using namespace fsdp::explain;
using namespace fsdp::schedule;

std::string_view fsdp::explain::getName(EventKind kind) {
  static constexpr std::string_view names[] = {
      "reshard", "reduce", "wait for reduce",       "update",
      "gather",  "fetch",  "gather by copy engines"};
  return names[static_cast<unsigned>(kind)];
}

static void addReleases(const Problem &problem, const Plan &plan, const ScheduleView &view,
                        std::vector<ScheduleEvent> &events) {
  std::vector<int32_t> next = problem.nextUses();
  for (uint32_t i = 0; i < problem.uses.size(); ++i) {
    if (next[i] >= 0 && plan.kept[next[i]])
      continue;
    ScheduleEvent event;
    event.kind = EventKind::Reshard;
    event.groups = {problem.groups[problem.uses[i].group].name};
    event.part = view.labels.operations[problem.uses[i].last].part;
    event.position = problem.uses[i].last + 1;
    event.timeNs = view.operations[problem.uses[i].last].endNs;
    events.push_back(event);
  }
}

std::vector<ScheduleEvent> fsdp::explain::getEvents(const Problem &problem, const Plan &plan,
                                                    const ScheduleView &view) {
  std::vector<ScheduleEvent> events;
  addReleases(problem, plan, view, events);
  for (const CollectiveView &collective : view.collectives) {
    ScheduleEvent event;
    event.groups = collective.groups;
    event.part = collective.part;
    event.position = collective.launch;
    event.timeNs = collective.interval.startNs;
    if (collective.kind == CollectiveKind::AllGather) {
      event.kind = collective.byCopyEngine ? EventKind::CopyEngineGather : EventKind::Gather;
      events.push_back(event);
      continue;
    }
    event.kind = EventKind::Reduce;
    events.push_back(event);
    event.kind = EventKind::WaitForReduction;
    event.position = collective.wait;
    event.timeNs = collective.interval.endNs;
    events.push_back(event);
  }
  for (uint32_t i = 0; i < view.operations.size(); ++i) {
    const OperationLabel &label = view.labels.operations[i];
    if (label.part == StepPart::Update)
      events.push_back({EventKind::Update,
                        {label.module},
                        StepPart::Update,
                        0,
                        i,
                        0,
                        view.operations[i].startNs});
  }
  for (const HostCopyView &copy : view.hostCopies)
    if (copy.fetch)
      events.push_back({EventKind::Fetch,
                        {copy.group},
                        view.labels.operations[copy.wait].part, // of its reader
                        0,
                        copy.launch,
                        0,
                        copy.fetch->startNs});
  // At one position: reshards, reductions and their waits, gathers, fetches. Buckets are in lane
  // order.
  std::stable_sort(events.begin(), events.end(), [](const auto &a, const auto &b) {
    auto rank = [](EventKind kind) {
      return kind == EventKind::Reshard            ? 0
             : kind == EventKind::Gather           ? 2
             : kind == EventKind::CopyEngineGather ? 2
             : kind == EventKind::Fetch            ? 3
             : kind == EventKind::Update           ? 4
                                                   : 1;
    };
    return std::pair(a.position, rank(a.kind)) < std::pair(b.position, rank(b.kind));
  });
  std::vector<uint32_t> places(view.operations.size() + 1);
  for (uint32_t i = 0; i < view.operations.size(); ++i)
    places[i + 1] = places[i] + !view.labels.operations[i].isMovable;
  std::map<std::tuple<EventKind, std::vector<std::string>, StepPart>, unsigned> seen;
  for (ScheduleEvent &event : events) {
    event.place = places[event.position];
    event.occurrence = seen[{event.kind, event.groups, event.part}]++;
  }
  return events;
}
