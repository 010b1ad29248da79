//===- StateCopyView.cpp - Copies of optimizer state on a timeline --------===//

#include "fsdp/Explain/ExplainModule.h"

#include <algorithm>

using namespace fsdp;
using namespace fsdp::explain;

namespace {

/// In the order at one position.
enum class CopyEvent { StoreStart, StoreWait, FetchStart, FetchWait };

struct PlacedEvent {
  uint32_t position;
  CopyEvent event;
  size_t copy;
};

} // namespace

std::vector<StateCopyView> fsdp::explain::viewStateCopies(const ScheduleProblem &step,
                                                          const StepMemory &memory,
                                                          const schedule::Timeline &timeline) {
  std::vector<StateCopyView> views;
  std::vector<PlacedEvent> events;
  for (auto [index, copy] : llvm::enumerate(step.stateCopies)) {
    FetchStateStartOp fetch = copy.ops.fetch;
    GroupOp group = memory.groups.lookup(fetch.getGroupAttr()).op;
    views.push_back({group.getModuleName(),
                     copy.bytes,
                     copy.fetchLaunch,
                     copy.fetchWait,
                     {},
                     {},
                     copy.exposedNs});
    events.push_back({copy.storeLaunch, CopyEvent::StoreStart, index});
    events.push_back({copy.storeWait, CopyEvent::StoreWait, index});
    events.push_back({copy.fetchLaunch, CopyEvent::FetchStart, index});
    events.push_back({copy.fetchWait, CopyEvent::FetchWait, index});
  }
  std::ranges::stable_sort(
      events, {}, [](const PlacedEvent &event) { return std::pair(event.position, event.event); });
  double nowNs = 0, fetchLinkNs = 0, storeLinkNs = 0; // when each direction is free
  for (const PlacedEvent &placed : events) {
    if (placed.position > 0)
      nowNs = std::max(nowNs, timeline.operations[placed.position - 1].endNs);
    StateCopyView &view = views[placed.copy];
    double copyNs = step.stateCopies[placed.copy].copyNs;
    auto start = [&](double &linkNs) -> schedule::Interval {
      double startNs = std::max(nowNs, linkNs);
      return {startNs, linkNs = startNs + copyNs};
    };
    switch (placed.event) {
    case CopyEvent::StoreStart:
      view.store = start(storeLinkNs);
      break;
    case CopyEvent::StoreWait:
      nowNs = std::max(nowNs, view.store.endNs);
      break;
    case CopyEvent::FetchStart:
      view.fetch = start(fetchLinkNs);
      break;
    case CopyEvent::FetchWait:
      nowNs = std::max(nowNs, view.fetch.endNs);
      break;
    }
  }
  return views;
}
