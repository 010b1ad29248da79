//===- ScheduleDiff.cpp - Two schedules side by side ----------------------===//

#include "fsdp/Explain/ScheduleDiff.h"

#include "GroupRows.h"
#include "fsdp/Explain/Quantities.h"
#include "fsdp/Explain/TextTable.h"
#include "llvm/Support/FormatVariadic.h"

#include <map>

using namespace fsdp::explain;
using namespace fsdp::schedule;
using Align = TextTable::Align;

std::string_view fsdp::explain::getName(EventKind kind) {
  static constexpr std::string_view names[] = {"release", "reduce", "wait for reduce", "gather"};
  return names[static_cast<unsigned>(kind)];
}

static std::string joinGroups(const CollectiveView &collective) {
  std::string text;
  for (const std::string &group : collective.groups)
    text += (text.empty() ? "" : " + ") + group;
  return text;
}

static void addReleases(const Problem &problem, const Plan &plan, const ScheduleView &view,
                        std::vector<ScheduleEvent> &events) {
  std::vector<int32_t> next = problem.nextUses();
  for (uint32_t i = 0; i < problem.uses.size(); ++i) {
    if (next[i] >= 0 && plan.kept[next[i]])
      continue;
    ScheduleEvent event;
    event.kind = EventKind::Release;
    event.groups = problem.groups[problem.uses[i].group].name;
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
    event.groups = joinGroups(collective);
    event.part = collective.part;
    event.position = collective.launch;
    event.timeNs = collective.interval.startNs;
    if (collective.kind == CollectiveKind::AllGather) {
      event.kind = EventKind::Gather;
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
  // At one position: releases, reductions and their waits, gathers.
  std::stable_sort(events.begin(), events.end(), [](const auto &a, const auto &b) {
    bool aGather = a.kind == EventKind::Gather, bGather = b.kind == EventKind::Gather;
    bool aLate = a.kind != EventKind::Release, bLate = b.kind != EventKind::Release;
    return std::tuple(a.position, aLate, aGather) < std::tuple(b.position, bLate, bGather);
  });
  std::map<std::tuple<EventKind, std::string, StepPart>, unsigned> seen;
  for (ScheduleEvent &event : events)
    event.occurrence = seen[{event.kind, event.groups, event.part}]++;
  return events;
}

static std::string formatChange(double left, double right) {
  if (left == right)
    return "=";
  if (left == 0)
    return "";
  return llvm::formatv("{0}{1:f2} %", right > left ? "+" : "", 100 * (right / left - 1));
}

static void printFigures(const ScheduleSide &left, const ScheduleSide &right,
                         llvm::raw_ostream &os) {
  TextTable table({{"", Align::Left},
                   {left.name, Align::Right},
                   {right.name, Align::Right},
                   {"change", Align::Right}});
  auto add = [&](const char *name, auto get, auto format) {
    auto a = get(left.view), b = get(right.view);
    table.addRow(
        {name, format(a), format(b), formatChange(static_cast<double>(a), static_cast<double>(b))});
  };
  auto bytesOf = [](CollectiveKind kind) {
    return [kind](const ScheduleView &view) {
      int64_t sum = 0;
      for (const CollectiveView &collective : view.collectives)
        sum += collective.kind == kind ? collective.sizeBytes : 0;
      return sum;
    };
  };
  auto countOf = [](CollectiveKind kind) {
    return [kind](const ScheduleView &view) {
      return static_cast<int64_t>(std::count_if(view.collectives.begin(), view.collectives.end(),
                                                [&](const auto &c) { return c.kind == kind; }));
    };
  };
  add(
      "predicted time", [](const ScheduleView &view) { return view.makespanNs; }, formatTime);
  add(
      "compute", [](const ScheduleView &view) { return view.getComputeNs(); }, formatTime);
  add(
      "waiting for gathers",
      [](const ScheduleView &view) { return view.getExposedNs(CollectiveKind::AllGather); },
      formatTime);
  add(
      "waiting for reductions",
      [](const ScheduleView &view) { return view.getExposedNs(CollectiveKind::ReduceScatter); },
      formatTime);
  add(
      "peak memory", [](const ScheduleView &view) { return view.getPeakBytes(); }, formatBytes);
  add("gathered", bytesOf(CollectiveKind::AllGather), formatBytes);
  add("reduced", bytesOf(CollectiveKind::ReduceScatter), formatBytes);
  add("gathers", countOf(CollectiveKind::AllGather), formatCount);
  add("reductions", countOf(CollectiveKind::ReduceScatter), formatCount);
  table.print(os);
}

/// What is said of the steps as wholes: mesh, lanes. Prints what differs.
static bool printFacts(const ScheduleSide &left, const ScheduleSide &right, llvm::raw_ostream &os) {
  auto factsOf = [](const ScheduleSide &side) {
    std::map<std::string, std::string> facts(side.view.labels.facts.begin(),
                                             side.view.labels.facts.end());
    facts["lanes"] =
        side.problem.oneLane || side.plan.shareLane ? "one for all collectives" : "gather, reduce";
    return facts;
  };
  std::map<std::string, std::string> a = factsOf(left), b = factsOf(right);
  for (const auto &[key, value] : b)
    a.try_emplace(key);
  bool differ = false;
  for (const auto &[key, value] : a) {
    if (value == b[key])
      continue;
    os << key << ": " << left.name << " '" << value << "', " << right.name << " '" << b[key]
       << "'\n";
    differ = true;
  }
  return differ;
}

/// Where the other schedule has different operations, positions cannot be compared.
static bool haveSameOperations(const ScheduleView &left, const ScheduleView &right) {
  return std::equal(left.labels.operations.begin(), left.labels.operations.end(),
                    right.labels.operations.begin(), right.labels.operations.end(),
                    [](const OperationLabel &a, const OperationLabel &b) {
                      return a.name == b.name && a.module == b.module && a.part == b.part;
                    });
}

/// An event that both have, but in another order, is one event that moved: shown in the left's
/// place.
static std::vector<AlignedEvent> joinMoved(const std::vector<ScheduleEvent> &left,
                                           const std::vector<ScheduleEvent> &right,
                                           std::vector<AlignedEvent> aligned) {
  auto getKey = [](const ScheduleEvent &event) {
    return std::tuple(event.kind, event.groups, event.part, event.occurrence);
  };
  std::map<decltype(getKey(left[0])), size_t> onlyRight;
  for (size_t i = 0; i < aligned.size(); ++i)
    if (!aligned[i].left)
      onlyRight[getKey(right[*aligned[i].right])] = i;
  std::vector<char> isJoined(aligned.size());
  for (AlignedEvent &pair : aligned) {
    if (pair.right)
      continue;
    auto found = onlyRight.find(getKey(left[*pair.left]));
    if (found == onlyRight.end())
      continue;
    pair.right = aligned[found->second].right;
    pair.isReordered = true;
    isJoined[found->second] = true;
  }
  std::vector<AlignedEvent> result;
  for (size_t i = 0; i < aligned.size(); ++i)
    if (!isJoined[i])
      result.push_back(aligned[i]);
  return result;
}

bool fsdp::explain::printDiff(const ScheduleSide &left, const ScheduleSide &right, bool all,
                              llvm::raw_ostream &os) {
  bool factsDiffer = printFacts(left, right, os);
  printFigures(left, right, os);
  bool sameOperations = haveSameOperations(left.view, right.view);
  if (!sameOperations)
    os << "\nthe steps have different operations (" << left.view.operations.size() << " and "
       << right.view.operations.size() << "): places are not compared\n";

  std::vector<ScheduleEvent> leftEvents = getEvents(left.problem, left.plan, left.view);
  std::vector<ScheduleEvent> rightEvents = getEvents(right.problem, right.plan, right.view);
  TextTable table({{"", Align::Left},
                   {"event", Align::Left},
                   {"groups", Align::Left},
                   {"part", Align::Left},
                   {left.name + ": before", Align::Left},
                   {"at", Align::Right},
                   {right.name + ": before", Align::Left},
                   {"at", Align::Right}});
  size_t numEqual = 0, numDifferent = 0;
  for (const AlignedEvent &pair :
       joinMoved(leftEvents, rightEvents, align(leftEvents, rightEvents))) {
    const ScheduleEvent *a = pair.left ? &leftEvents[*pair.left] : nullptr;
    const ScheduleEvent *b = pair.right ? &rightEvents[*pair.right] : nullptr;
    bool isEqual = a && b && !pair.isReordered && (!sameOperations || a->position == b->position);
    bool isMoved = a && b && !isEqual;
    ++(isEqual ? numEqual : numDifferent);
    if (isEqual && !all)
      continue;
    const ScheduleEvent &event = a ? *a : *b;
    const char *mark = isMoved ? "~" : isEqual ? "" : a ? "-" : "+";
    table.addRow({mark, std::string(getName(event.kind)), event.groups,
                  std::string(getName(event.part)), a ? getPlace(left.view, a->position) : "",
                  a ? formatTime(a->timeNs) : "", b ? getPlace(right.view, b->position) : "",
                  b ? formatTime(b->timeNs) : ""});
  }
  os << '\n';
  table.print(os);
  if (numDifferent > 0)
    os << '\n';
  os << numDifferent << " events differ, " << numEqual << " are equal\n";
  return numDifferent > 0 || !sameOperations || factsDiffer;
}
