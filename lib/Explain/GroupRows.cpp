//===- GroupRows.cpp - A table of each group's events ---------------------===//

#include "GroupRows.h"

#include "fsdp/Explain/Quantities.h"

using namespace fsdp::explain;
using namespace fsdp::schedule;

std::string fsdp::explain::getPlace(const ScheduleView &view, uint32_t position) {
  if (position >= view.labels.operations.size())
    return "the end";
  const OperationLabel &label = view.labels.operations[position];
  return label.module.empty() ? label.name : label.module;
}

/// Why a collective is launched at its position and, for one of its groups, with which others.
static std::string getReason(const ExplainedPlan &plan, uint32_t index, const std::string &group) {
  const CollectiveView &collective = plan.view.collectives[index];
  const LaunchReason &reason = plan.explanation.launches[index];
  std::string why = describe(reason, plan.view);
  if (collective.groups.size() == 1)
    return why;
  std::vector<std::string> others;
  for (const std::string &name : collective.groups)
    if (name != group)
      others.push_back(name);
  return why + "; with " + joinNames(others) + ", saves " + formatTime(reason.latencySavedNs) +
         " of latency";
}

std::vector<GroupRow> fsdp::explain::getGroupRows(const ExplainedPlan &plan) {
  const Problem &problem = plan.problem;
  const ScheduleView &view = plan.view;
  std::vector<const KeepReason *> reasonOf(problem.uses.size());
  for (const KeepReason &reason : plan.explanation.keeps)
    reasonOf[reason.use] = &reason;

  std::vector<GroupRow> rows;
  for (const KeepReason &reason : plan.explanation.keeps) {
    const Use &use = problem.uses[reason.use];
    if (reason.kept)
      rows.push_back({use.group, use.first, view.labels.operations[use.first].part, "keep",
                      reason.sizeBytes, std::nullopt, "", describe(reason, view)});
  }
  // A group that may not be released has one use, from the forward into the backward.
  for (const Use &use : problem.uses) {
    StepPart part = view.labels.operations[use.last].part;
    if (part == view.labels.operations[use.first].part)
      continue;
    int64_t sizeBytes = problem.groups[use.group].gatheredBytes;
    rows.push_back(
        {use.group, use.last, part, "keep", sizeBytes, std::nullopt, "",
         "stays gathered for the backward, saves " +
             formatTime(
                 problem.meshOf(problem.groups[use.group]).gatherCost.durationNs(sizeBytes)) +
             " of gathering"});
  }
  constexpr const char *kWhat[2][2] = {{"gather", "again"},
                                       {"gather by copy engines", "again by copy engines"}};
  for (uint32_t i = 0; i < plan.plan.gathers.size(); ++i)
    for (uint32_t index : plan.plan.gathers[i].uses) {
      const Use &use = problem.uses[index];
      const Group &group = problem.groups[use.group];
      rows.push_back({use.group, use.first, view.labels.operations[use.first].part,
                      kWhat[view.collectives[i].byCopyEngine][reasonOf[index] != nullptr],
                      group.gatheredBytes, i, getReason(plan, i, group.name),
                      reasonOf[index] ? describe(*reasonOf[index], view) : ""});
    }
  for (uint32_t i = 0; i < plan.plan.reductions.size(); ++i)
    for (uint32_t member : plan.plan.reductions[i].reductions) {
      const Reduction &reduction = problem.reductions[member];
      uint32_t index = static_cast<uint32_t>(plan.plan.gathers.size()) + i;
      rows.push_back({reduction.group, plan.plan.reductions[i].launch, view.collectives[index].part,
                      "reduce", reduction.inputBytes, index,
                      getReason(plan, index, problem.groups[reduction.group].name), ""});
    }
  std::stable_sort(rows.begin(), rows.end(), [](const GroupRow &a, const GroupRow &b) {
    return std::pair(a.group, a.operation) < std::pair(b.group, b.operation);
  });
  return rows;
}
