//===- ScheduleDiff.cpp - Two schedules side by side ----------------------===//

#include "fsdp/Explain/ScheduleDiff.h"

#include "DiffFigures.h"
#include "GroupRows.h"
#include "fsdp/Explain/Quantities.h"
#include "fsdp/Explain/TextTable.h"
#include "llvm/Support/JSON.h"

#include <cmath>
#include <map>

using namespace fsdp::explain;
using Align = TextTable::Align;

bool fsdp::explain::haveSameOperations(const ScheduleView &left, const ScheduleView &right) {
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

static void printFigures(const ScheduleSide &left, const ScheduleSide &right,
                         llvm::raw_ostream &os) {
  TextTable table({{"", Align::Left},
                   {left.name, Align::Right},
                   {right.name, Align::Right},
                   {"change", Align::Right}});
  for (const Figure &figure : getFigures(left.view, right.view))
    table.addRow(
        {figure.name, figure.leftText, figure.rightText, formatChange(figure.left, figure.right)});
  table.print(os);
}

using EventKey = std::tuple<EventKind, std::vector<std::string>, StepPart, unsigned>;

static EventKey getKey(const ScheduleEvent &event) {
  return {event.kind, event.groups, event.part, event.occurrence};
}

/// Joins events that both have in another order into one moved event, at the left's position.
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

/// An event of one or both sides, and the kind of difference.
struct EventPair {
  const ScheduleEvent *left = nullptr, *right = nullptr;
  const char *mark = ""; // "-", "+", "~"; empty: equal

  const ScheduleEvent &any() const { return left ? *left : *right; }
};

} // namespace

/// Events of one kind are compared in order (that of their lane), events of different kinds by
/// position only.
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
  // The pointers point into `left` and `right`, which outlive the selections.
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
  std::vector<Fact> facts = findFacts(left, right);
  for (const Fact &fact : facts)
    os << fact.name << ": " << left.name << " '" << fact.left << "', " << right.name << " '"
       << fact.right << "'\n";
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
  return numDifferent > 0 || !sameOperations || !facts.empty();
}

bool fsdp::explain::writeDiff(const ScheduleSide &left, const ScheduleSide &right,
                              llvm::raw_ostream &os) {
  std::vector<Fact> facts = findFacts(left, right);
  bool sameOperations = haveSameOperations(left.view, right.view), differ = !facts.empty();
  std::vector<ScheduleEvent> leftEvents = getEvents(left.problem, left.plan, left.view);
  std::vector<ScheduleEvent> rightEvents = getEvents(right.problem, right.plan, right.view);
  llvm::json::OStream out(os, /*IndentSize=*/1);
  auto writeSides = [&](auto leftValue, auto rightValue) {
    out.attribute("left", leftValue);
    out.attribute("right", rightValue);
  };
  out.object([&] {
    writeSides(left.name, right.name);
    out.attribute("sameOperations", sameOperations);
    out.attributeArray("facts", [&] {
      for (const Fact &fact : facts)
        out.object([&] {
          out.attribute("name", fact.name);
          writeSides(fact.left, fact.right);
        });
    });
    out.attributeObject("figures", [&] {
      for (const Figure &figure : getFigures(left.view, right.view))
        out.attributeObject(
            figure.key, [&] { writeSides(std::llround(figure.left), std::llround(figure.right)); });
    });
    out.attributeArray("events", [&] {
      for (const EventPair &pair : pairEvents(leftEvents, rightEvents, sameOperations)) {
        differ |= *pair.mark != 0;
        auto write = [&](const char *key, const ScheduleEvent *event, const ScheduleView &view) {
          if (event)
            out.attributeObject(key, [&] {
              out.attribute("before", getPlace(view, event->position));
              out.attribute("atNs", std::llround(event->timeNs));
            });
        };
        out.object([&] {
          out.attribute("mark", *pair.mark ? pair.mark : "=");
          out.attribute("kind", llvm::StringRef(getName(pair.any().kind)));
          out.attributeArray("groups", [&] {
            for (const std::string &group : pair.any().groups)
              out.value(group);
          });
          out.attribute("part", llvm::StringRef(getName(pair.any().part)));
          write("left", pair.left, left.view);
          write("right", pair.right, right.view);
        });
      }
    });
  });
  os << '\n';
  return differ || !sameOperations;
}
