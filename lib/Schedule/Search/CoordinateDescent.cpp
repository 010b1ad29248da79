//===- CoordinateDescent.cpp - One line of the recipe at a time -----------===//

#include "Search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

using namespace fsdp::schedule;

namespace {

class CoordinateDescent {
public:
  CoordinateDescent(const SearchSpace &space, const LowerBound &bound, bool merge,
                    Evaluator &evaluator)
      : space(space), bound(bound), merge(merge), evaluator(evaluator),
        orders(orderKeeps(space, bound)),
        numReserved(space.mayChunk.empty() ? 0 : std::min(kChunkTrials, evaluator.numLeft() / 5)) {}

  void run();

private:
  /// Whether this recipe is better than the current one, which it then replaces.
  bool tryRecipe(Recipe recipe);
  bool tryKeeps(std::span<const uint32_t> uses);
  void descendKeeps(std::span<const uint32_t> order, bool byBound);
  void descendChunks();
  void descendMerging(Merging Recipe::*merging, double latencyBytes, bool rounding);
  void descendYields(bool mayShareLane, double latencyBytes);
  template <typename T> void descend(T Recipe::*field, std::initializer_list<T> values);

  const SearchSpace &space;
  const LowerBound &bound;
  bool merge;
  Evaluator &evaluator;
  std::vector<std::vector<uint32_t>> orders;
  std::vector<uint32_t> chunkOrder; // that `current` follows
  /// Simulations that are left for chunks, which are tried last: so they come on top of what is
  /// best without them.
  static constexpr int64_t kChunkTrials = 20;
  int64_t numReserved;
  Recipe current;
  double currentNs = std::numeric_limits<double>::infinity();
};

} // namespace

bool CoordinateDescent::tryRecipe(Recipe recipe) {
  if (evaluator.isDone() || evaluator.numLeft() <= numReserved)
    return false;
  double makespanNs = evaluator.evaluate(makeDecisions(space, recipe, bound));
  if (makespanNs >= currentNs)
    return false;
  currentNs = makespanNs;
  current = std::move(recipe);
  return true;
}

bool CoordinateDescent::tryKeeps(std::span<const uint32_t> uses) {
  Recipe recipe = current;
  recipe.kept = keptFlags(space, uses);
  if (recipe.kept == current.kept)
    return false;
  if (!current.chunked.empty())
    recipe.chunked = fitChunks(space, recipe.kept, chunkOrder);
  return tryRecipe(std::move(recipe));
}

/// Prefixes of an order: a few lengths, then finer around the best one.
void CoordinateDescent::descendKeeps(std::span<const uint32_t> order, bool byBound) {
  std::vector<uint32_t> fitting = fitKeeps(space, order);
  auto all = ptrdiff_t(fitting.size()), length = ptrdiff_t(-1);
  std::set<ptrdiff_t> lengths;
  if (byBound) {
    for (double least : {.999, .5, .01})
      lengths.insert(std::count_if(fitting.begin(), fitting.end(),
                                   [&](uint32_t use) { return bound.kept[use] >= least; }));
  } else {
    lengths = {0, 1, 2, 3, all / 4, all / 2, 3 * all / 4, all - 1, all};
  }
  auto tryLength = [&](ptrdiff_t candidate) {
    if (candidate < 0 || candidate > all || !tryKeeps(std::span(fitting).first(size_t(candidate))))
      return false;
    length = candidate;
    return true;
  };
  for (ptrdiff_t candidate : lengths)
    tryLength(candidate);
  if (length < 0)
    return;
  for (ptrdiff_t step = std::max<ptrdiff_t>(1, all / 8); step >= 1;)
    if (!tryLength(length + step) && !tryLength(length - step))
      step /= 2;
}

/// Which uses are gathered from chunks, as far as these fit beside what is kept. That has taken all
/// memory so far, so less is kept, too.
void CoordinateDescent::descendChunks() {
  if (space.mayChunk.empty())
    return;
  auto tryBoth = [&](std::vector<uint8_t> kept, std::span<const uint32_t> order) {
    Recipe recipe = current;
    recipe.chunked = fitChunks(space, kept, order);
    recipe.kept = std::move(kept);
    if (recipe.kept == current.kept && recipe.chunked == current.chunked)
      return;
    if (tryRecipe(std::move(recipe)))
      chunkOrder.assign(order.begin(), order.end());
  };
  tryBoth(current.kept, {});
  // Those whose chunks stay for the shortest time come first.
  std::vector<uint32_t> order = space.mayChunk, kept;
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return space.gapNs(a) < space.gapNs(b); });
  std::copy_if(orders.front().begin(), orders.front().end(), std::back_inserter(kept),
               [&](uint32_t use) { return current.kept[use]; });
  for (size_t halves : {2, 1, 0})
    tryBoth(keptFlags(space, std::span(kept).first(kept.size() * halves / 2)), order);
  for (size_t part : {2, 8})
    tryBoth(current.kept, std::span(order).first(order.size() / part));
  for (double least : {.99, .5}) {
    if (bound.chunked.empty())
      return;
    auto isInBound = [&](const std::vector<double> &shares) {
      std::vector<uint32_t> uses;
      std::copy_if(space.mayKeep.begin(), space.mayKeep.end(), std::back_inserter(uses),
                   [&](uint32_t use) { return shares[use] >= least; });
      return uses;
    };
    tryBoth(keptFlags(space, fitKeeps(space, isInBound(bound.kept))), isInBound(bound.chunked));
  }
}

void CoordinateDescent::descendMerging(Merging Recipe::*merging, double latencyBytes,
                                       bool rounding) {
  auto tryMerging = [&](Merging value) {
    Recipe recipe = current;
    recipe.*merging = value;
    tryRecipe(std::move(recipe));
  };
  tryMerging({});
  if (!merge)
    return;
  if (rounding)
    for (double offset : {0., .3, .6})
      tryMerging({Merging::Rounding, 0, offset});
  for (double multiple : {.5, 1., 2., 4., 8., 16., 32.})
    tryMerging({Merging::Threshold, multiple * latencyBytes, 0});
}

template <typename T>
void CoordinateDescent::descend(T Recipe::*field, std::initializer_list<T> values) {
  for (const T &value : values) {
    Recipe recipe = current;
    recipe.*field = value;
    tryRecipe(std::move(recipe));
  }
}

/// Small gathers that yield to reductions: neither alone is better.
void CoordinateDescent::descendYields(bool mayShareLane, double latencyBytes) {
  for (double multiple : {0., 1., 4., 8., 16., 32.}) {
    if (multiple > 0 && !merge)
      return;
    for (double slowdown : {1., 1.05, 1.1, 1.2, 1.4})
      for (bool share : {false, true}) {
        Recipe recipe = current;
        recipe.gathers = {multiple > 0 ? Merging::Threshold : Merging::None,
                          multiple * latencyBytes};
        recipe.latest = slowdown;
        if (mayShareLane)
          recipe.shareLane = share;
        else if (share)
          continue;
        tryRecipe(std::move(recipe));
      }
  }
}

/// Bytes whose transfer takes as long as the latency.
static double latencyBytes(const CollectiveCost &cost) {
  return cost.nsPerByte > 0 ? cost.latencyNs / cost.nsPerByte : 0;
}

void CoordinateDescent::run() {
  const bool rounding = !bound.kept.empty();
  const Problem &problem = space.problem;
  double gatherBytes = latencyBytes(problem.gatherCost);
  double reduceBytes = latencyBytes(problem.reduceCost);
  Recipe start;
  start.kept = space.alwaysKept;
  if (merge && !rounding) {
    start.gathers = {Merging::Threshold, 2 * gatherBytes, 0};
    start.reductions = {Merging::Threshold, 2 * reduceBytes, 0};
  }
  tryRecipe(std::move(start));
  if (current.kept.empty())
    return;

  auto descendAll = [&] {
    for (size_t i = 0; i < orders.size(); ++i)
      descendKeeps(orders[i], /*byBound=*/i == 1);
    descendMerging(&Recipe::gathers, gatherBytes, rounding);
    descendMerging(&Recipe::reductions, reduceBytes, rounding);
    bool mayShareLane = !problem.oneLane && problem.laneContention > 1;
    if (mayShareLane)
      descend(&Recipe::shareLane, {false, true});
    descend(&Recipe::delay, {Delay{}, {1, true}, {2, true}, {3, true}, {1}, {2}, {3}});
    descend(&Recipe::latest, {0., 1., 1.1, 1.3});
    if (mayShareLane || problem.oneLane)
      descendYields(mayShareLane, gatherBytes);
  };
  constexpr int kRounds = 2;
  for (int round = 0; round < kRounds && !evaluator.isDone(); ++round) {
    double before = currentNs;
    descendAll();
    if (currentNs >= before)
      break;
  }
  numReserved = 0;
  double before = currentNs;
  descendChunks();
  if (currentNs < before)
    descendAll();
}

void fsdp::schedule::descendCoordinates(const SearchSpace &space, const LowerBound &bound,
                                        bool merge, Evaluator &evaluator) {
  CoordinateDescent(space, bound, merge, evaluator).run();
}
