//===- ScheduleView.cpp - A simulated step for display --------------------===//

#include "fsdp/Explain/ScheduleView.h"

#include "fsdp/Explain/Quantities.h"

#include "MemorySweep.h"
#include "fsdp/Schedule/IssueOrder.h"

#include <algorithm>
#include <cassert>
#include <numeric>

using namespace fsdp::explain;
using namespace fsdp::schedule;

std::string_view fsdp::explain::getName(MemoryCategory category) {
  static constexpr std::string_view names[kNumMemoryCategories] = {
      "shards",    "optimizer state", "inputs",      "activations", "backward values",
      "gradients", "gathered",        "temporaries", "other"};
  return names[static_cast<unsigned>(category)];
}

std::string_view fsdp::explain::getName(StepPart part) {
  static constexpr std::string_view names[] = {"forward", "backward", "update"};
  return names[static_cast<unsigned>(part)];
}

std::string_view fsdp::explain::getName(CollectiveKind kind) {
  return kind == CollectiveKind::AllGather ? "all_gather" : "reduce_scatter";
}

int64_t fsdp::explain::getTotal(const MemoryBytes &bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t(0));
}

std::string fsdp::explain::describe(const OperationLabel &label) {
  std::string module = label.module.empty() ? "the root" : label.module;
  return std::string(getName(label.part)) + " of " + module + " (" + label.name + ")";
}

std::string fsdp::explain::joinNames(const std::vector<std::string> &names) {
  constexpr size_t kMostShown = 3;
  if (names.size() > kMostShown)
    return names.front() + " ... " + names.back() + " (" + std::to_string(names.size()) +
           " groups)";
  std::string text;
  for (const std::string &name : names)
    text += (text.empty() ? "" : " + ") + name;
  return text;
}

std::string fsdp::explain::describe(const CollectiveView &collective) {
  return std::string(getName(collective.kind)) + " " + joinNames(collective.groups);
}

double ScheduleView::getComputeNs() const {
  double sum = 0;
  for (const Interval &interval : operations)
    sum += interval.endNs - interval.startNs;
  return sum - getExposedCopyNs();
}

double ScheduleView::getExposedCopyNs() const {
  double sum = 0;
  for (const HostCopyView &copy : hostCopies)
    sum += copy.exposedNs;
  return sum;
}

double ScheduleView::getExposedAcrossNs() const {
  double sum = 0;
  for (const CollectiveView &collective : collectives)
    sum += collective.exposedAcrossNs;
  return sum;
}

double ScheduleView::getCollectiveNs() const {
  double sum = 0;
  for (const CollectiveView &collective : collectives) {
    sum += collective.durationNs();
    if (collective.across)
      sum += collective.across->endNs - collective.across->startNs;
  }
  return sum;
}

std::string fsdp::explain::describeHostCopies(const ScheduleView &view) {
  if (view.hostCopies.empty())
    return {};
  int64_t bytes = 0;
  for (const HostCopyView &copy : view.hostCopies)
    bytes += copy.sizeBytes;
  return formatBytes(bytes) + ", for whose copies computation waits " +
         formatTime(view.getExposedCopyNs());
}

bool ScheduleView::hasReplicas() const {
  return std::any_of(collectives.begin(), collectives.end(),
                     [](const CollectiveView &collective) { return collective.across; });
}

double ScheduleView::getExposedNs(CollectiveKind kind) const {
  double sum = 0;
  for (const CollectiveView &collective : collectives)
    if (collective.kind == kind)
      sum += collective.exposedNs;
  return sum;
}

namespace {

/// Visits the order of issue and notes when the compute stream reaches each launch.
struct IssueTimes {
  const Timeline &timeline;
  ScheduleView &view;
  double nowNs = 0;

  void launchGather(uint32_t bucket) { view.collectives[bucket].issueNs = nowNs; }
  void launchReduction(uint32_t bucket) {
    view.collectives[timeline.gathers.size() + bucket].issueNs = nowNs;
  }
  void waitForGather(uint32_t bucket) { waitUntil(timeline.gathers[bucket].endNs); }
  void waitForReduction(uint32_t bucket) { waitUntil(timeline.reductions[bucket].endNs); }
  void waitForAcross(uint32_t bucket) { waitUntil(timeline.across[bucket]->endNs); }
  void compute(uint32_t, uint32_t end) { nowNs = timeline.operations[end - 1].endNs; }
  void waitUntil(double endNs) { nowNs = std::max(nowNs, endNs); }
};

} // namespace

static void addCollectives(const Problem &problem, const Plan &plan, const Timeline &timeline,
                           ScheduleView &view) {
  const std::vector<OperationLabel> &labels = view.labels.operations;
  for (uint32_t i = 0; i < plan.gathers.size(); ++i) {
    const GatherBucket &bucket = plan.gathers[i];
    CollectiveView gather;
    gather.kind = CollectiveKind::AllGather;
    gather.bucket = i;
    gather.launch = bucket.launch;
    gather.byCopyEngine = bucket.byCopyEngine;
    gather.wait = problem.uses[bucket.uses.front()].first;
    for (uint32_t use : bucket.uses) {
      const Group &group = problem.groups[problem.uses[use].group];
      gather.groups.push_back(group.name);
      gather.sizeBytes += group.gatheredBytes;
      gather.wait = std::min(gather.wait, problem.uses[use].first);
    }
    gather.part = labels[gather.wait].part;
    gather.interval = timeline.gathers[i];
    gather.exposedNs = timeline.exposedGatherNs[i];
    view.collectives.push_back(std::move(gather));
  }
  for (uint32_t i = 0; i < plan.reductions.size(); ++i) {
    const ReductionBucket &bucket = plan.reductions[i];
    CollectiveView reduction;
    reduction.kind = CollectiveKind::ReduceScatter;
    reduction.bucket = i;
    reduction.launch = bucket.launch;
    reduction.wait = bucket.wait;
    uint32_t ready = 1;
    for (uint32_t member : bucket.reductions) {
      reduction.groups.push_back(problem.groups[problem.reductions[member].group].name);
      reduction.sizeBytes += problem.reductions[member].inputBytes;
      reduction.acrossBytes += problem.reductions[member].outputBytes;
      ready = std::max(ready, problem.reductions[member].ready);
    }
    reduction.part = labels[ready - 1].part; // of the last operation that computes gradients
    reduction.interval = timeline.reductions[i];
    reduction.exposedNs = timeline.exposedReductionNs[i];
    reduction.across = timeline.across[i];
    reduction.exposedAcrossNs = timeline.exposedAcrossNs[i];
    view.collectives.push_back(std::move(reduction));
  }
}

ScheduleView fsdp::explain::buildView(const Problem &problem, const Plan &plan,
                                      const Timeline &timeline, StepLabels labels) {
  assert(labels.operations.size() == problem.operations.size() && "one label per operation");
  ScheduleView view;
  view.labels = std::move(labels);
  view.makespanNs = timeline.makespanNs;
  view.operations = timeline.operations;
  view.memoryCapBytes = problem.memoryCapBytes;
  addCollectives(problem, plan, timeline, view);
  IssueTimes times{timeline, view};
  walkIssueOrder(problem, plan, times);
  sweepMemory(problem, plan, view);
  return view;
}
