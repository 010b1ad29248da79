//===- ArenaPlanner.cpp - Place buffers with live ranges in one arena -----===//
//
// Three heuristics with several orders; the smallest arena is kept, and improved while that pays:
//
// * First fit (FirstFit.h), quadratic: runs while its number of steps stays in a budget.
// * Skyline (Skyline.h): O(n log n).
// * Layers: a skyline of the long-lived items, and first fit of the others above it, which only
//   considers buffers near in time: linear in the number of buffers.
//
// Improvement ("squeaky wheel"): items that end above the lower bound are placed earlier in the
// next attempt of first fit; repeated offenders move further ahead.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Plan/ArenaPlanner.h"

#include "FirstFit.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>

using namespace fsdp::plan;

namespace {

/// The total number of steps of all attempts of first fit: about 0.1 s.
constexpr int64_t kFirstFitBudget = 100'000'000;
/// After this many attempts in a row without improvement the planner stops.
constexpr int kPatience = 200;

class Search {
public:
  explicit Search(const ArenaProblem &problem)
      : problem(problem), ground(problem.numPositions), bases(problem.items.size()),
        best(problem.items.size()) {}

  std::vector<int64_t> run();

private:
  /// The items by decreasing key, equal keys in their original order.
  template <typename Key> std::vector<size_t> sortBy(Key key) const {
    std::vector<size_t> order(problem.items.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, [&](size_t a, size_t b) {
      auto keyA = key(a), keyB = key(b);
      return keyA != keyB ? keyA > keyB : a < b;
    });
    return order;
  }
  /// True within a thousandth of the lower bound: no further attempts.
  bool isTight() const { return bestBytes - problem.peakLiveBytes <= problem.peakLiveBytes / 1000; }
  /// Keeps `bases` as `best` if its arena is smaller.
  bool keepIfBetter();
  int64_t getLife(size_t item) const {
    return problem.items[item].last - problem.items[item].first + 1;
  }
  std::vector<int64_t> findPressures() const;
  bool runFirstFit(std::span<const size_t> order) {
    return FirstFit(problem, ground, problem.numPositions, budget).run(order, bases);
  }
  void trySkyline(std::span<const size_t> order);
  /// Stacks items that live longer than `longestLife` by life, then fits the others in `order`.
  void tryLayers(std::span<const size_t> byLife, std::span<const size_t> order,
                 int64_t longestLife);
  bool tryFirstFit(std::span<const size_t> order) {
    return !isTight() && runFirstFit(order) && keepIfBetter();
  }
  void improve(std::vector<size_t> order);

  const ArenaProblem &problem;
  int64_t budget = kFirstFitBudget;
  const Skyline ground;             // without any items
  std::vector<int64_t> bases, best; // by item
  int64_t bestBytes = INT64_MAX;
};

} // namespace

bool Search::keepIfBetter() {
  int64_t bytes = 0;
  for (size_t i = 0; i < problem.items.size(); ++i)
    bytes = std::max(bytes, bases[i] + problem.items[i].size);
  if (bytes >= bestBytes)
    return false;
  bestBytes = bytes;
  best = bases;
  return true;
}

void Search::improve(std::vector<size_t> order) {
  std::vector<int64_t> rank(order.size()); // by item: larger ranks are placed earlier
  for (size_t i = 0; i < order.size(); ++i)
    rank[order[i]] = static_cast<int64_t>(order.size() - i);
  for (int idle = 0; idle < kPatience && !isTight() && budget > 0; ++idle) {
    if (!runFirstFit(order))
      return;
    if (keepIfBetter())
      idle = 0;
    // The distance that an item moves ahead varies, so that no attempt is repeated.
    int64_t push = static_cast<int64_t>(order.size()) / (2 + idle % 13) + 1;
    for (size_t i = 0; i < order.size(); ++i)
      if (bases[i] + problem.items[i].size > problem.peakLiveBytes)
        rank[i] += push;
    order = sortBy([&](size_t i) { return rank[i]; });
  }
}

void Search::trySkyline(std::span<const size_t> order) {
  if (isTight())
    return;
  stackItems(problem, order, bases);
  keepIfBetter();
}

void Search::tryLayers(std::span<const size_t> byLife, std::span<const size_t> order,
                       int64_t longestLife) {
  if (isTight() || longestLife >= problem.numPositions)
    return;
  auto firstShort =
      std::ranges::find_if(byLife, [&](size_t i) { return getLife(i) <= longestLife; });
  Skyline floor = stackItems(problem, std::span(byLife.begin(), firstShort), bases);
  std::vector<size_t> shortLived;
  std::ranges::copy_if(order, std::back_inserter(shortLived),
                       [&](size_t i) { return getLife(i) <= longestLife; });
  // Short-lived items have few neighbours in time: first fit is fast and needs no budget.
  int64_t unlimited = INT64_MAX;
  if (FirstFit(problem, floor, longestLife, unlimited).run(shortLived, bases))
    keepIfBetter();
}

/// By item: the largest sum of live bytes during its life. Items in times of low pressure are easy
/// to place last.
std::vector<int64_t> Search::findPressures() const {
  Skyline live(problem.numPositions);
  for (int64_t position = 0; position < problem.numPositions; ++position)
    live.raise(position, position, problem.liveBytes[position]);
  std::vector<int64_t> pressures(problem.items.size());
  for (size_t i = 0; i < pressures.size(); ++i)
    for (const Part &part : problem.partsOf(problem.items[i]))
      pressures[i] = std::max(pressures[i], live.heightOver(part.first, part.last));
  return pressures;
}

std::vector<int64_t> Search::run() {
  std::vector<size_t> byLife =
      sortBy([&](size_t i) { return std::tuple(getLife(i), problem.items[i].size); });
  std::vector<size_t> byArea = sortBy([&](size_t i) { return problem.items[i].area; });
  std::vector<size_t> bySize =
      sortBy([&](size_t i) { return std::tuple(problem.items[i].size, getLife(i)); });
  trySkyline(byLife);
  for (int64_t longestLife : {512, 2048})
    for (std::vector<size_t> *order : {&bySize, &byArea})
      tryLayers(byLife, *order, longestLife);
  // Pressure in steps of a twentieth of the peak is coarse enough for life and size to matter, too.
  std::vector<int64_t> pressures = findPressures();
  int64_t step = problem.peakLiveBytes / 20 + 1;
  std::vector<size_t> byPressureAndLife =
      sortBy([&](size_t i) { return std::tuple(pressures[i], getLife(i)); });
  std::vector<size_t> byStepAndLife =
      sortBy([&](size_t i) { return std::tuple(pressures[i] / step, getLife(i)); });
  std::vector<size_t> byStepAndSize =
      sortBy([&](size_t i) { return std::tuple(pressures[i] / step, problem.items[i].size); });
  std::vector<size_t> *start = &bySize;
  for (std::vector<size_t> *order :
       {&bySize, &byPressureAndLife, &byStepAndLife, &byStepAndSize, &byLife, &byArea})
    if (tryFirstFit(*order))
      start = order;
  improve(*start);
  return best;
}

/// The plan of these bases, by item.
static ArenaPlan makePlan(const ArenaProblem &problem, size_t numBuffers,
                          std::span<const int64_t> bases) {
  ArenaPlan plan;
  plan.offsets.resize(numBuffers);
  plan.peakLiveBytes = problem.peakLiveBytes;
  for (size_t i = 0; i < problem.items.size(); ++i)
    for (const Part &part : problem.partsOf(problem.items[i])) {
      plan.offsets[part.buffer] = bases[i] + part.begin;
      plan.arenaBytes = std::max(plan.arenaBytes, bases[i] + part.begin + part.size);
    }
  return plan;
}

ArenaPlan fsdp::plan::planArena(std::span<const BufferRange> buffers) {
  ArenaProblem problem = makeArenaProblem(buffers);
  return makePlan(problem, buffers.size(), Search(problem).run());
}

ArenaPlan fsdp::plan::fillArena(std::span<const BufferRange> buffers,
                                std::span<const int64_t> known) {
  constexpr int64_t kBlockPositions = 512;
  ArenaProblem problem = makeArenaProblem(buffers);
  const Skyline ground(problem.numPositions);
  int64_t unlimited = INT64_MAX;
  FirstFit fit(problem, ground, kBlockPositions, unlimited);
  std::vector<int64_t> bases(problem.items.size());
  std::vector<size_t> others;
  for (size_t i = 0; i < problem.items.size(); ++i) {
    const Part &part = problem.partsOf(problem.items[i]).front();
    if (known[part.buffer] < 0)
      others.push_back(i);
    else
      fit.insert(i, bases[i] = known[part.buffer] - part.begin);
  }
  std::ranges::stable_sort(others, std::greater(), [&](size_t i) { return problem.items[i].size; });
  fit.run(others, bases);
  return makePlan(problem, buffers.size(), bases);
}
