//===- StateCopyView.cpp - Copies of optimizer state on a timeline --------===//

#include "fsdp/Explain/ExplainModule.h"

#include <algorithm>

using namespace mlir;
using namespace fsdp;
using namespace fsdp::explain;

std::vector<StateCopyView> fsdp::explain::viewStateCopies(const ScheduleProblem &step,
                                                          const StepMemory &memory,
                                                          const schedule::Timeline &timeline) {
  std::vector<StateCopyView> views;
  for (const ScheduledStateCopy &copy : step.stateCopies) {
    Operation *start = copy.gradient ? copy.gradient : FetchStateStartOp(copy.ops.fetch);
    GroupOp group = memory.groups.lookup(getGroupOf(start)).op;
    views.push_back({group.getModuleName() + (copy.gradient ? ", gradient" : ""),
                     copy.bytes,
                     copy.fetchLaunch,
                     copy.fetchWait,
                     {},
                     {},
                     copy.exposedNs});
  }
  double nowNs = 0, fetchLinkNs = 0, storeLinkNs = 0; // when each direction is free
  for (const StateCopyEvent &event : getEvents(step.stateCopies)) {
    if (event.position > 0)
      nowNs = std::max(nowNs, timeline.operations[event.position - 1].endNs);
    StateCopyView &view = views[event.copy];
    double copyNs = step.stateCopies[event.copy].copyNs;
    auto start = [&](double &linkNs) -> schedule::Interval {
      double startNs = std::max(nowNs, linkNs);
      return {startNs, linkNs = startNs + copyNs};
    };
    switch (event.kind) {
    case StateCopyEventKind::StoreStart:
      view.store = start(storeLinkNs);
      break;
    case StateCopyEventKind::StoreWait:
      nowNs = std::max(nowNs, view.store.endNs);
      break;
    case StateCopyEventKind::FetchStart:
      view.fetch = start(fetchLinkNs);
      break;
    case StateCopyEventKind::FetchWait:
      nowNs = std::max(nowNs, view.fetch.endNs);
      break;
    }
  }
  return views;
}
