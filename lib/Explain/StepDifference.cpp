//===- StepDifference.cpp - Differences between two schedules -------------===//

#include "fsdp/Explain/StepDifference.h"

#include "GroupRows.h"
#include "fsdp/Explain/Blocks.h"
#include "fsdp/Explain/Quantities.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <map>
#include <set>

using namespace fsdp::explain;
using namespace fsdp::schedule;

static double durationOf(const Interval &interval) { return interval.endNs - interval.startNs; }

std::vector<double> fsdp::explain::getCollectiveCosts(const ScheduleSide &side) {
  const ScheduleView &view = side.view;
  std::vector<double> costs;
  for (const CollectiveView &collective : view.collectives)
    costs.push_back(collective.exposedNs + collective.exposedAcrossNs);
  // The slowdown of an operation is divided among the collectives beside it, in proportion to the
  // time of overlap.
  auto forEachOverlap = [&](auto function) {
    for (size_t i = 0; i < view.collectives.size(); ++i)
      for (const Interval &busy :
           {view.collectives[i].interval, view.collectives[i].across.value_or(Interval{0, 0})}) {
        auto first = llvm::partition_point(
            view.operations, [&](const Interval &op) { return op.endNs <= busy.startNs; });
        for (; first != view.operations.end() && first->startNs < busy.endNs; ++first)
          function(i, first - view.operations.begin(),
                   std::min(first->endNs, busy.endNs) - std::max(first->startNs, busy.startNs));
      }
  };
  std::vector<double> overlaps(view.operations.size());
  forEachOverlap([&](size_t, size_t op, double ns) { overlaps[op] += ns; });
  forEachOverlap([&](size_t collective, size_t op, double ns) {
    double slower = durationOf(view.operations[op]) - side.problem.operations[op].durationNs;
    if (overlaps[op] > 0) // operations of no duration do not overlap
      costs[collective] += slower * ns / overlaps[op];
  });
  return costs;
}

namespace {

/// One use of one parameter, or one reduction of its gradient.
struct TransferKey {
  CollectiveKind kind;
  StepPart part;
  std::string parameter;
  unsigned occurrence; // number of equal keys before it
  auto operator<=>(const TransferKey &) const = default;
};

struct Transfer {
  std::string group;
  std::optional<uint32_t> collective; // none: a copy is kept
  std::string chunks = {};            // "from chunks" of a gather; none: from all ranks
};

using Transfers = std::map<TransferKey, Transfer>;

class TransferFinder {
public:
  explicit TransferFinder(const ScheduleSide &side) : side(side) {}

  Transfers find() {
    const Problem &problem = side.problem;
    const Plan &plan = side.plan;
    std::vector<std::optional<uint32_t>> ofUse(problem.uses.size()),
        ofReduction(problem.reductions.size());
    for (uint32_t i = 0; i < plan.gathers.size(); ++i)
      for (uint32_t use : plan.gathers[i].uses)
        ofUse[use] = i;
    for (uint32_t i = 0; i < plan.reductions.size(); ++i)
      for (uint32_t member : plan.reductions[i].reductions)
        ofReduction[member] = static_cast<uint32_t>(plan.gathers.size()) + i;
    for (uint32_t i = 0; i < problem.uses.size(); ++i) {
      const Use &use = problem.uses[i];
      const std::string &group = problem.groups[use.group].name;
      StepPart first = partOf(use.first), last = partOf(use.last);
      add(CollectiveKind::AllGather, first, {group, ofUse[i], nameChunks(i)});
      if (last != first) // a single use, kept from the forward into the backward
        add(CollectiveKind::AllGather, last, {group, std::nullopt});
    }
    for (uint32_t i = 0; i < problem.reductions.size(); ++i)
      add(CollectiveKind::ReduceScatter, StepPart::Backward,
          {problem.groups[problem.reductions[i].group].name, ofReduction[i]});
    return std::move(transfers);
  }

private:
  StepPart partOf(uint32_t operation) const { return side.view.labels.operations[operation].part; }
  std::string nameChunks(uint32_t use) const {
    if (!side.plan.isChunked(use))
      return "";
    const bool isOnHost = side.problem.chunkOf(use, side.plan.chunkedOf(use)).isOnHost;
    return isOnHost ? "from chunks on the host" : "from chunks";
  }

  void add(CollectiveKind kind, StepPart part, const Transfer &transfer) {
    const auto &parameters = side.view.labels.parameters;
    auto found = parameters.find(transfer.group);
    for (const std::string &parameter :
         found == parameters.end() ? std::vector<std::string>{transfer.group} : found->second) {
      TransferKey key = {kind, part, parameter, 0};
      key.occurrence = seen[key]++;
      transfers[key] = transfer;
    }
  }

  const ScheduleSide &side;
  std::map<TransferKey, unsigned> seen;
  Transfers transfers;
};

/// The collectives and kept copies of both steps that involve the same parameters.
struct Component {
  CollectiveKind kind = CollectiveKind::AllGather;
  StepPart part = StepPart::Forward;
  std::set<uint32_t> collectives[2];
  std::set<std::string> kept[2];
  std::set<std::pair<std::string, std::string>> chunked[2]; // Transfer::chunks and group
};

class Comparer {
public:
  Comparer(const ScheduleSide &left, const ScheduleSide &right)
      : sides{&left, &right}, costs{getCollectiveCosts(left), getCollectiveCosts(right)},
        // If operations differ, positions are compared by name only.
        sameOperations(haveSameOperations(left.view, right.view)) {
    for (unsigned side : {0u, 1u}) {
      const std::vector<OperationLabel> &labels = sides[side]->view.labels.operations;
      places[side].resize(labels.size() + 1);
      for (size_t i = 0; i < labels.size(); ++i)
        places[side][i + 1] = places[side][i] + !labels[i].isMovable;
    }
  }

  StepComparison compare() {
    for (Component &component : findComponents())
      addTransfers(component);
    addComputation();
    sortByCost(result.differences);
    return std::move(result);
  }

private:
  using Node = std::pair<unsigned, uint32_t>; // side and collective

  std::vector<Component> findComponents() {
    Transfers transfers[2] = {TransferFinder(*sides[0]).find(), TransferFinder(*sides[1]).find()};
    llvm::EquivalenceClasses<Node> classes;
    std::set<std::pair<uint32_t, uint32_t>> pairs;
    for (unsigned side : {0u, 1u})
      for (const auto &[key, transfer] : transfers[side]) {
        if (!transfer.collective)
          continue;
        classes.insert({side, *transfer.collective});
        auto other = transfers[1 - side].find(key);
        if (side == 1 || other == transfers[1].end() || !other->second.collective)
          continue;
        classes.unionSets({0, *transfer.collective}, {1, *other->second.collective});
        pairs.emplace(*transfer.collective, *other->second.collective);
      }
    result.pairs.assign(pairs.begin(), pairs.end());

    std::vector<Component> components;
    std::map<Node, size_t> indexOf; // by representative
    auto componentOf = [&](Node node) -> Component & {
      auto [entry, isNew] = indexOf.try_emplace(classes.getLeaderValue(node), components.size());
      if (isNew)
        components.emplace_back();
      return components[entry->second];
    };
    for (unsigned side : {0u, 1u})
      for (const auto &[key, transfer] : transfers[side]) {
        if (!transfer.collective)
          continue;
        Component &component = componentOf({side, *transfer.collective});
        component.kind = key.kind;
        component.part = key.part;
        component.collectives[side].insert(*transfer.collective);
        if (!transfer.chunks.empty())
          component.chunked[side].emplace(transfer.chunks, transfer.group);
        if (auto other = transfers[1 - side].find(key);
            other != transfers[1 - side].end() && !other->second.collective)
          component.kept[1 - side].insert(other->second.group);
      }
    return components;
  }

  std::string describeSide(const Component &component, unsigned side) const {
    const std::set<uint32_t> &indices = component.collectives[side];
    size_t numKept = component.kept[side].size();
    if (indices.empty())
      return numKept ? "kept" : "nothing";
    const ScheduleView &view = sides[side]->view;
    const CollectiveView &first = view.collectives[*indices.begin()];
    bool isGather = component.kind == CollectiveKind::AllGather;
    std::string text = formatCount(static_cast<int64_t>(indices.size())) +
                       (isGather ? " gather" : " reduction") + (indices.size() > 1 ? "s" : "");
    if (indices.size() == 1 && first.groups.size() > 1)
      text += " of " + std::to_string(first.groups.size()) + " groups";
    if (first.byCopyEngine)
      text += " by copy engines";
    std::set<std::string> chunks;
    for (const auto &[kind, group] : component.chunked[side])
      chunks.insert(kind);
    for (const std::string &kind : chunks)
      text += (&kind == &*chunks.begin() ? " " : " and ") + kind;
    text += (indices.size() > 1 ? ", the first issued before " : ", issued before ") +
            getPlace(view, first.launch) + " at " + formatTime(first.issueNs);
    if (numKept)
      text += ", " + std::to_string(numKept) + " kept";
    return text;
  }

  bool isElsewhere(uint32_t left, uint32_t right) const {
    uint32_t a = sides[0]->view.collectives[left].launch,
             b = sides[1]->view.collectives[right].launch;
    if (sameOperations)
      return places[0][a] != places[1][b];
    return getPlace(sides[0]->view, a) != getPlace(sides[1]->view, b);
  }

  /// The kind of difference between the sides; empty if there is none.
  std::string classify(const Component &component) const {
    const std::set<uint32_t> &left = component.collectives[0], &right = component.collectives[1];
    std::string kind = component.kind == CollectiveKind::AllGather ? "gather" : "reduction";
    if (right.empty())
      return component.kept[1].empty() ? "only in " + sides[0]->name : "kept";
    if (left.empty())
      return component.kept[0].empty() ? "only in " + sides[1]->name : "gathered again";
    auto groupsOf = [&](unsigned side) {
      std::vector<std::vector<std::string>> groups;
      for (uint32_t index : component.collectives[side])
        groups.push_back(sides[side]->view.collectives[index].groups);
      return groups;
    };
    if (left.size() != right.size() || groupsOf(0) != groupsOf(1))
      return kind + " buckets";
    for (auto [a, b] : llvm::zip_equal(left, right))
      if (sides[0]->view.collectives[a].byCopyEngine != sides[1]->view.collectives[b].byCopyEngine)
        return "transport";
    if (component.chunked[0] != component.chunked[1])
      return "chunks";
    for (auto [a, b] : llvm::zip_equal(left, right))
      if (isElsewhere(a, b))
        return kind + " launch";
    return "";
  }

  void addTransfers(const Component &component) {
    StepDifference difference;
    difference.what = classify(component);
    for (unsigned side : {0u, 1u})
      for (uint32_t index : component.collectives[side]) {
        (side ? difference.rightNs : difference.leftNs) += costs[side][index];
        const CollectiveView &collective = sides[side]->view.collectives[index];
        difference.laneNs += (side ? 1 : -1) * collective.durationNs();
      }
    if (difference.what.empty()) {
      result.sameNs += difference.getChangeNs();
      return;
    }
    difference.part = component.part;
    difference.left = describeSide(component, 0);
    difference.right = describeSide(component, 1);
    difference.leftCollectives.assign(component.collectives[0].begin(),
                                      component.collectives[0].end());
    difference.rightCollectives.assign(component.collectives[1].begin(),
                                       component.collectives[1].end());
    unsigned side = component.collectives[0].empty();
    for (uint32_t index : component.collectives[side])
      llvm::append_range(difference.names, sides[side]->view.collectives[index].groups);
    result.differences.push_back(std::move(difference));
  }

  struct BlockWork {
    double ns = 0;
    std::map<std::string, int64_t> operations; // counts, of operations with a duration
  };
  using Blocks = std::map<std::pair<StepPart, std::string>, BlockWork>;

  Blocks findWork(unsigned side) const {
    Blocks blocks;
    const ScheduleSide &step = *sides[side];
    for (size_t i = 0; i < step.problem.operations.size(); ++i) {
      const OperationLabel &label = step.view.labels.operations[i];
      double ns = step.problem.operations[i].durationNs;
      if (ns <= 0)
        continue;
      BlockWork &work = blocks[{label.part, std::string(getBlockName(label.module))}];
      work.ns += ns;
      ++work.operations[label.name];
    }
    return blocks;
  }

  /// "9.10 ms, with 7 more mm.default, 2 more silu.default, ...": the time, and the operations that
  /// `work` has more of than `other`.
  static std::string describeWork(const BlockWork &work, const BlockWork &other) {
    std::string text = formatTime(work.ns);
    constexpr int kMostShown = 3;
    int shown = 0;
    for (const auto &[name, count] : work.operations) {
      auto found = other.operations.find(name);
      int64_t more = count - (found == other.operations.end() ? 0 : found->second);
      if (more <= 0)
        continue;
      if (++shown > kMostShown)
        return text + ", ...";
      text += (shown == 1 ? ", with " : ", ") + formatCount(more) + " more " + name;
    }
    return text;
  }

  void addComputation() {
    Blocks left = findWork(0), right = findWork(1);
    for (const auto &[key, work] : right)
      left.try_emplace(key);
    for (const auto &[key, work] : left) {
      const BlockWork &other = right[key];
      if (std::abs(work.ns - other.ns) < 1 && work.operations == other.operations)
        continue;
      StepDifference difference;
      difference.what = "computation";
      difference.part = key.first;
      difference.names = {key.second.empty() ? "root" : key.second};
      difference.left = describeWork(work, other);
      difference.right = describeWork(other, work);
      difference.leftNs = work.ns;
      difference.rightNs = other.ns;
      difference.isComputation = true;
      result.differences.push_back(std::move(difference));
    }
  }

  const ScheduleSide *sides[2];
  std::vector<double> costs[2];
  bool sameOperations;
  std::vector<uint32_t> places[2]; // by position: number of preceding operations that do not move
  StepComparison result;
};

} // namespace

void fsdp::explain::sortByCost(std::vector<StepDifference> &differences) {
  auto rank = [](const StepDifference &difference) {
    // In whole nanoseconds, so that rounding errors do not affect the order.
    return std::pair(-std::llround(std::abs(difference.getChangeNs())),
                     -std::llround(std::abs(difference.laneNs)));
  };
  llvm::stable_sort(differences, [&](const auto &a, const auto &b) { return rank(a) < rank(b); });
}

StepComparison fsdp::explain::compareSteps(const ScheduleSide &left, const ScheduleSide &right) {
  return Comparer(left, right).compare();
}
