//===- Print.cpp - A schedule and its reasons as text ---------------------===//

#include "fsdp/Explain/Print.h"

#include "GroupRows.h"
#include "PathRuns.h"
#include "fsdp/Explain/Quantities.h"
#include "fsdp/Explain/TextTable.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace fsdp::explain;
using namespace fsdp::schedule;
using Align = TextTable::Align;

static int64_t getMovedBytes(const ScheduleView &view, CollectiveKind kind) {
  int64_t sum = 0;
  for (const CollectiveView &collective : view.collectives)
    if (collective.kind == kind)
      sum += collective.sizeBytes;
  return sum;
}

static void printMemory(const ScheduleView &view, llvm::raw_ostream &os) {
  if (view.memory.empty())
    return;
  const MemoryBytes &bytes = view.memory[view.peakSample].bytes;
  std::vector<unsigned> order;
  for (unsigned i = 0; i < kNumMemoryCategories; ++i)
    if (bytes[i] != 0)
      order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](unsigned a, unsigned b) { return bytes[a] > bytes[b]; });
  os << "\nmemory at the peak\n";
  TextTable table({{"", Align::Left}, {"", Align::Right}, {"", Align::Right}});
  for (unsigned category : order)
    table.addRow({std::string(getName(MemoryCategory(category))), formatBytes(bytes[category]),
                  formatShare(static_cast<double>(bytes[category]) /
                              static_cast<double>(view.getPeakBytes()))});
  table.print(os, 2);
}

static void printHostCopies(const ScheduleView &view, llvm::raw_ostream &os) {
  if (view.hostCopies.empty())
    return;
  os << "\ncopies to and from the host\n";
  TextTable table({{"of", Align::Left},
                   {"size", Align::Right},
                   {"fetched before", Align::Left},
                   {"starts", Align::Right},
                   {"takes", Align::Right},
                   {"stored", Align::Right},
                   {"exposed", Align::Right}});
  // Copies of one name are one row, in the order of the first fetch and store.
  struct Sum {
    int64_t bytes = 0;
    double fetchNs = 0, exposedNs = 0;
  };
  llvm::MapVector<llvm::StringRef, std::pair<HostCopyView, Sum>> rows;
  for (const HostCopyView &copy : view.hostCopies) {
    auto &[first, sum] = rows.try_emplace(copy.group, copy, Sum()).first->second;
    if (copy.fetch && copy.fetch->startNs < first.fetch->startNs) {
      first.launch = copy.launch;
      first.fetch = copy.fetch;
    }
    first.store.startNs = std::min(first.store.startNs, copy.store.startNs);
    sum.bytes += copy.sizeBytes;
    sum.fetchNs += copy.fetch ? copy.fetch->endNs - copy.fetch->startNs : 0;
    sum.exposedNs += copy.exposedNs;
  }
  for (const auto &[name, row] : rows) {
    const auto &[first, sum] = row;
    table.addRow({name.str(), formatBytes(sum.bytes),
                  first.fetch ? getPlace(view, first.launch) : "by its gather",
                  first.fetch ? formatTime(first.fetch->startNs) : "",
                  first.fetch ? formatTime(sum.fetchNs) : "", formatTime(first.store.startNs),
                  formatTime(sum.exposedNs)});
  }
  table.print(os, 2);
}

/// Of all groups, or of the named one.
static void printDecisions(const ScheduleView &view, llvm::StringRef group, llvm::raw_ostream &os) {
  auto isShown = [&](const DecisionView &decision) {
    return group.empty() || llvm::is_contained(decision.groups, group);
  };
  if (llvm::none_of(view.decisions, isShown))
    return;
  os << "\ndecisions\n";
  TextTable table({{"group", Align::Left},
                   {"what", Align::Left},
                   {"asked", Align::Left},
                   {"decided", Align::Left},
                   {"why", Align::Left}});
  for (const DecisionView &decision : view.decisions)
    if (isShown(decision))
      table.addRow({joinNames(decision.groups), decision.what, decision.asked, decision.decided,
                    decision.why});
  table.print(os, 2);
}

void fsdp::explain::printStep(const ExplainedPlan &plan, llvm::raw_ostream &os) {
  const ScheduleView &view = plan.view;
  double exposedGatherNs = view.getExposedNs(CollectiveKind::AllGather);
  double exposedReduceNs = view.getExposedNs(CollectiveKind::ReduceScatter);
  double collectiveNs = view.getCollectiveNs();
  os << (view.labels.model.empty() ? "step" : view.labels.model) << ": predicted "
     << formatTime(view.makespanNs) << ", "
     << llvm::formatv("{0:f4}", view.makespanNs / plan.bound.makespanNs)
     << " x the bound that no schedule can beat (" << formatTime(plan.bound.makespanNs) << ", "
     << std::string(getName(plan.bound.kind)) << ")\n";
  TextTable table({{"", Align::Left}, {"", Align::Left}});
  for (const auto &[key, value] : view.labels.facts)
    table.addRow({key, value});
  if (!view.labels.costSources.empty())
    table.addRow({"costs", view.labels.costSources});
  table.addRow({"compute", formatTime(view.getComputeNs())});
  if (view.modelPeakNs > 0)
    table.addRow({"MFU", formatShare(view.getUtilization())});
  double exposedNs = exposedGatherNs + exposedReduceNs + view.getExposedAcrossNs();
  std::string replicas;
  if (view.hasReplicas())
    replicas = ", replicas " + formatTime(view.getExposedAcrossNs());
  table.addRow({"collectives", formatTime(collectiveNs) + ", of which computation waits " +
                                   formatTime(exposedNs) + " (gathers " +
                                   formatTime(exposedGatherNs) + ", reductions " +
                                   formatTime(exposedReduceNs) + replicas + ")"});
  table.addRow(
      {"moved", formatBytes(getMovedBytes(view, CollectiveKind::AllGather)) + " gathered, " +
                    formatBytes(getMovedBytes(view, CollectiveKind::ReduceScatter)) + " reduced"});
  std::string peak = formatBytes(view.getPeakBytes());
  if (view.memoryCapBytes)
    peak += " of " + formatBytes(*view.memoryCapBytes);
  if (!view.memory.empty())
    peak += ", " + formatTime(view.memory[view.peakSample].timeNs) + " into the step, at " +
            describe(view.labels.operations[view.peakOperation]);
  table.addRow({"peak memory", peak});
  if (std::string host = describeHostCopies(view); !host.empty())
    table.addRow({"on the host", host});
  table.print(os, 2);
  printCriticalPath(plan, os);
  printMemory(view, os);
  printHostCopies(view, os);
  printDecisions(view, /*group=*/"", os);
}

void fsdp::explain::printGroups(const ExplainedPlan &plan, llvm::StringRef group,
                                llvm::raw_ostream &os) {
  TextTable table({{"group", Align::Left},
                   {"part", Align::Left},
                   {"what", Align::Left},
                   {"size", Align::Right},
                   {"issued before", Align::Left},
                   {"starts", Align::Right},
                   {"takes", Align::Right},
                   {"exposed", Align::Right},
                   {"why", Align::Left}});
  int64_t last = -1;
  for (const GroupRow &row : getGroupRows(plan)) {
    const std::string &name = plan.problem.groups[row.group].name;
    if (!group.empty() && group != name)
      continue;
    std::string part(getName(row.part)), size = formatBytes(row.sizeBytes);
    std::string shown = row.group == last ? "" : name;
    last = row.group;
    if (!row.collective) {
      table.addRow({shown, part, row.what, size, "", "", "", "", row.getWhy()});
      continue;
    }
    const CollectiveView &collective = plan.view.collectives[*row.collective];
    table.addRow({shown, part, row.what, size, getPlace(plan.view, collective.launch),
                  formatTime(collective.interval.startNs), formatTime(collective.durationNs()),
                  formatTime(collective.exposedNs), row.getWhy()});
  }
  table.print(os);
  if (!group.empty())
    printDecisions(plan.view, group, os);
}
