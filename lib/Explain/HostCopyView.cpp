//===- HostCopyView.cpp - Host copies on a timeline -----------------------===//

#include "fsdp/Explain/ExplainModule.h"

#include <algorithm>

using namespace mlir;
using namespace fsdp;
using namespace fsdp::explain;

/// A group, with the kind of value unless it is optimizer state; or a module and its activation.
static std::string nameCopied(const ScheduledHostCopy &copy, const StepMemory &memory) {
  if (FlatSymbolRefAttr group = getGroupOf(copy.isOfChunk() ? copy.store : copy.fetch))
    return GroupOp(memory.groups.lookup(group).op).getModuleName() + (copy.update ? ""
                                                                      : copy.isOfChunk()
                                                                          ? ", chunk"
                                                                          : ", gradient");
  aten::ScopeAttr scope = getScopeOf(cast<FetchStartOp>(copy.fetch).getSource());
  const std::string module = scope ? scope.getModule().str() : "";
  return (module.empty() ? "root" : module) + ", activation";
}

std::vector<HostCopyView> fsdp::explain::viewHostCopies(const ScheduleProblem &step,
                                                        const StepMemory &memory,
                                                        const schedule::Timeline &timeline) {
  std::vector<HostCopyView> views;
  for (const ScheduledHostCopy &copy : step.hostCopies) {
    views.push_back({nameCopied(copy, memory),
                     copy.bytes,
                     copy.fetchLaunch,
                     copy.fetchWaited,
                     {},
                     {},
                     copy.exposedNs});
  }
  double nowNs = 0, fetchLinkNs = 0, storeLinkNs = 0; // the times when each link is free
  for (const HostCopyEvent &event : getEvents(step.hostCopies)) {
    if (event.position > 0)
      nowNs = std::max(nowNs, timeline.operations[event.position - 1].endNs);
    HostCopyView &view = views[event.copy];
    double copyNs = step.hostCopies[event.copy].copyNs;
    auto start = [&](double &linkNs) -> schedule::Interval {
      double startNs = std::max(nowNs, linkNs);
      return {startNs, linkNs = startNs + copyNs};
    };
    switch (event.kind) {
    case HostCopyEventKind::StoreStart:
      view.store = start(storeLinkNs);
      break;
    case HostCopyEventKind::StoreWait:
      nowNs = std::max(nowNs, view.store.endNs);
      break;
    case HostCopyEventKind::FetchStart:
      view.fetch = start(fetchLinkNs);
      break;
    case HostCopyEventKind::FetchWait:
      nowNs = std::max(nowNs, view.fetch->endNs);
      break;
    }
  }
  return views;
}
