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
  static constexpr std::string_view names[] = {"reshard", "reduce", "wait for reduce",
                                               "update",  "gather", "fetch"};
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
    events.push_back({EventKind::Fetch,
                      {copy.group},
                      view.labels.operations[copy.wait].part, // of what reads it
                      0,
                      copy.launch,
                      0,
                      copy.fetch.startNs});
  // At one position: reshards, reductions and their waits, gathers, fetches; a bucket's order is
  // its lane's.
  std::stable_sort(events.begin(), events.end(), [](const auto &a, const auto &b) {
    auto rank = [](EventKind kind) {
      return kind == EventKind::Reshard  ? 0
             : kind == EventKind::Gather ? 2
             : kind == EventKind::Fetch  ? 3
             : kind == EventKind::Update ? 4
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
  add("predicted time", [](const ScheduleView &view) { return view.makespanNs; }, formatTime);
  add("compute", [](const ScheduleView &view) { return view.getComputeNs(); }, formatTime);
  add(
      "waiting for gathers",
      [](const ScheduleView &view) { return view.getExposedNs(CollectiveKind::AllGather); },
      formatTime);
  add(
      "waiting for reductions",
      [](const ScheduleView &view) { return view.getExposedNs(CollectiveKind::ReduceScatter); },
      formatTime);
  if (left.view.hasReplicas() || right.view.hasReplicas())
    add(
        "waiting for replicas", [](const ScheduleView &view) { return view.getExposedAcrossNs(); },
        formatTime);
  if (!left.view.hostCopies.empty() || !right.view.hostCopies.empty()) {
    add(
        "waiting for the host", [](const ScheduleView &view) { return view.getExposedCopyNs(); },
        formatTime);
    add(
        "copied to the host",
        [](const ScheduleView &view) {
          int64_t bytes = 0;
          for (const HostCopyView &copy : view.hostCopies)
            bytes += copy.sizeBytes;
          return bytes;
        },
        formatBytes);
  }
  add("peak memory", [](const ScheduleView &view) { return view.getPeakBytes(); }, formatBytes);
  add("gathered", bytesOf(CollectiveKind::AllGather), formatBytes);
  add("reduced", bytesOf(CollectiveKind::ReduceScatter), formatBytes);
  add("gathers", countOf(CollectiveKind::AllGather), formatCount);
  add("reductions", countOf(CollectiveKind::ReduceScatter), formatCount);
  table.print(os);
}

/// Compares properties of the whole steps (mesh, lanes) and prints those that differ.
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
  auto collect = [](const ScheduleView &view) {
    std::vector<const OperationLabel *> labels;
    for (const OperationLabel &label : view.labels.operations)
      if (!label.isMovable)
        labels.push_back(&label);
    return labels;
  };
  std::vector<const OperationLabel *> a = collect(left), b = collect(right);
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto *a, const auto *b) {
    return a->name == b->name && a->module == b->module && a->part == b->part;
  });
}

using EventKey = std::tuple<EventKind, std::vector<std::string>, StepPart, unsigned>;

static EventKey getKey(const ScheduleEvent &event) {
  return {event.kind, event.groups, event.part, event.occurrence};
}

/// An event that both have, but in another order, is one event that moved: shown in the left's
/// place.
static std::vector<AlignedEvent> joinMoved(const std::vector<ScheduleEvent> &left,
                                           const std::vector<ScheduleEvent> &right,
                                           std::vector<AlignedEvent> aligned) {
  std::map<EventKey, size_t> onlyRight;
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

namespace {

/// An event of one side or of both, and how they differ.
struct EventPair {
  const ScheduleEvent *left = nullptr, *right = nullptr;
  const char *mark = ""; // "-", "+", "~"; empty: equal

  const ScheduleEvent &any() const { return left ? *left : *right; }
};

} // namespace

/// Events of one kind have an order that matters (that of their lane); between kinds only places
/// do.
static std::vector<EventPair> pairEvents(const std::vector<ScheduleEvent> &left,
                                         const std::vector<ScheduleEvent> &right,
                                         bool sameOperations) {
  auto select = [](const std::vector<ScheduleEvent> &events, EventKind kind) {
    std::vector<ScheduleEvent> selected;
    for (const ScheduleEvent &event : events)
      if (event.kind == kind)
        selected.push_back(event);
    return selected;
  };
  // The pointers are into `left` and `right`, which outlive the selections.
  auto locate = [](const std::vector<ScheduleEvent> &events) {
    std::map<EventKey, const ScheduleEvent *> found;
    for (const ScheduleEvent &event : events)
      found[getKey(event)] = &event;
    return found;
  };
  auto leftEvents = locate(left), rightEvents = locate(right);
  std::vector<EventPair> pairs;
  for (unsigned i = 0; i < kNumEventKinds; ++i) {
    std::vector<ScheduleEvent> a = select(left, EventKind(i)), b = select(right, EventKind(i));
    for (const AlignedEvent &aligned : joinMoved(a, b, align(a, b))) {
      EventPair pair;
      if (aligned.left)
        pair.left = leftEvents[getKey(a[*aligned.left])];
      if (aligned.right)
        pair.right = rightEvents[getKey(b[*aligned.right])];
      bool isElsewhere =
          pair.left && pair.right && sameOperations && pair.left->place != pair.right->place;
      pair.mark = !pair.right                          ? "-"
                  : !pair.left                         ? "+"
                  : aligned.isReordered || isElsewhere ? "~"
                                                       : "";
      pairs.push_back(pair);
    }
  }
  std::stable_sort(pairs.begin(), pairs.end(), [](const EventPair &a, const EventPair &b) {
    return a.any().place < b.any().place;
  });
  return pairs;
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
  for (const EventPair &pair : pairEvents(leftEvents, rightEvents, sameOperations)) {
    bool isEqual = !*pair.mark;
    ++(isEqual ? numEqual : numDifferent);
    if (isEqual && !all)
      continue;
    const ScheduleEvent *a = pair.left, *b = pair.right;
    table.addRow({pair.mark, std::string(getName(pair.any().kind)), joinNames(pair.any().groups),
                  std::string(getName(pair.any().part)), a ? getPlace(left.view, a->position) : "",
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
