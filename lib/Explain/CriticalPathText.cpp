//===- CriticalPathText.cpp - What bounds a step, as text -----------------===//

#include "PathRuns.h"
#include "fsdp/Explain/Quantities.h"
#include "fsdp/Explain/TextTable.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"

#include <numeric>

using namespace fsdp::explain;
using Align = TextTable::Align;

static double getLength(const PathRun &run) { return run.interval.endNs - run.interval.startNs; }

/// The operators that take most of the computation: "mostly mm.default (75.4 %)".
static std::string describeOperators(const ScheduleView &view) {
  constexpr size_t kMostShown = 2;
  constexpr double kLeastShare = 0.05; // of the step
  llvm::MapVector<llvm::StringRef, double> nsOf;
  for (const PathSegment &segment : view.criticalPath)
    if (segment.kind == PathKind::Computation)
      nsOf[view.labels.operations[segment.index].name] +=
          segment.interval.endNs - segment.interval.startNs;
  auto operators = nsOf.takeVector();
  llvm::stable_sort(operators, [](const auto &a, const auto &b) { return a.second > b.second; });
  operators.truncate(std::min(kMostShown, operators.size()));
  std::string text;
  for (const auto &[name, ns] : operators)
    if (ns >= kLeastShare * view.makespanNs)
      text += (text.empty() ? "mostly " : ", ") + name.str() + " (" +
              formatShare(ns / view.makespanNs) + ")";
  return text;
}

/// The largest share first.
static void printShares(const ScheduleView &view, llvm::raw_ostream &os) {
  static constexpr const char *names[kNumPathKinds] = {
      "computation",          "gathers",           "reductions", "over replicas",
      "copies from the host", "copies to the host"};
  const PathShares shares = getPathShares(view);
  std::vector<unsigned> order(kNumPathKinds);
  std::iota(order.begin(), order.end(), 0U);
  llvm::stable_sort(order, [&](unsigned a, unsigned b) { return shares[a].ns > shares[b].ns; });
  TextTable table({{"", Align::Left}, {"", Align::Right}, {"", Align::Right}, {"", Align::Left}});
  for (unsigned kind : order)
    if (const PathShare &share = shares[kind]; share.ns > 0) {
      std::string more =
          share.slowdownNs > 0 ? "of which slowdown " + formatTime(share.slowdownNs) : "";
      if (PathKind(kind) == PathKind::Computation)
        if (std::string operators = describeOperators(view); !operators.empty())
          more += (more.empty() ? "" : "; ") + operators;
      table.addRow(
          {names[kind], formatTime(share.ns), formatShare(share.ns / view.makespanNs), more});
    }
  table.print(os, 2);
}

/// All runs if they are few, else the longest that are not computation; in the order of the step.
static std::vector<PathRun> chooseRuns(const std::vector<PathRun> &runs) {
  constexpr size_t kMostShown = 10;
  if (runs.size() <= kMostShown)
    return runs;
  std::vector<PathRun> chosen;
  llvm::copy_if(runs, std::back_inserter(chosen),
                [](const PathRun &run) { return run.first.kind != PathKind::Computation; });
  llvm::stable_sort(chosen,
                    [](const PathRun &a, const PathRun &b) { return getLength(a) > getLength(b); });
  if (chosen.size() > kMostShown)
    chosen.resize(kMostShown);
  llvm::stable_sort(chosen, [](const PathRun &a, const PathRun &b) {
    return a.interval.startNs < b.interval.startNs;
  });
  return chosen;
}

void fsdp::explain::printCriticalPath(const ExplainedPlan &plan, llvm::raw_ostream &os) {
  const ScheduleView &view = plan.view;
  if (view.criticalPath.empty())
    return;
  os << "\ncritical path\n";
  printShares(view, os);
  const std::vector<PathRun> runs = getPathRuns(view), shown = chooseRuns(runs);
  if (shown.empty())
    return;
  TextTable table({{"begins", Align::Right},
                   {"takes", Align::Right},
                   {"share", Align::Right},
                   {"what", Align::Left},
                   {"why then", Align::Left}});
  for (const PathRun &run : shown)
    table.addRow({formatTime(run.interval.startNs), formatTime(getLength(run)),
                  formatShare(getLength(run) / view.makespanNs), run.name,
                  describeCause(run.first, plan)});
  os << '\n';
  table.print(os, 2);
  const bool isAll = shown.size() == runs.size();
  const auto others = static_cast<size_t>(llvm::count_if(
      runs, [](const PathRun &run) { return run.first.kind != PathKind::Computation; }));
  if (!isAll && others > shown.size())
    os << "  and " << others - shown.size() << " shorter ones\n";
}
