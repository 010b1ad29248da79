//===- CoordinateDescent.cpp - One parameter of the recipe at a time ------===//

#include "Search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

using namespace fsdp::schedule;

namespace {

class CoordinateDescent {
public:
  CoordinateDescent(const SearchSpace &space, const LowerBound &bound, Evaluator &evaluator)
      : space(space), problem(space.problem), bound(bound), evaluator(evaluator),
        orders(orderKeeps(space, bound)),
        numReserved(space.mayChunk.empty() ? 0 : evaluator.numLeft() / 2) {}

  void run();

private:
  /// Replaces the current recipe if this recipe is better. Returns whether it is.
  bool tryRecipe(Recipe recipe);
  bool tryKeeps(std::span<const uint32_t> uses);
  bool tryChunks(std::vector<uint8_t> kept, std::span<const uint32_t> order);
  /// Tries prefixes of these lengths, at most `all`, and then lengths around the best.
  template <typename TryLength>
  void descendLengths(const std::set<ptrdiff_t> &lengths, ptrdiff_t all, TryLength tryLength);
  void descendKeeps(std::span<const uint32_t> order, bool byBound);
  void descendChunks();
  void tryChunksBesideKeeps();
  void tryChunksOfBound();
  void descendMerging(Merging Recipe::*merging, double latencyBytes);
  double latencyBytes(const CollectiveCost &cost) const;
  bool descendLanes();
  void descendYields(bool mayShareLane);
  void descendTransports();
  template <typename T> void descend(T Recipe::*field, std::initializer_list<T> values);
  void descendAll();
  /// Repeats all descents from the current recipe until no change helps.
  void descendRounds();

  const SearchSpace &space;
  const Problem &problem;
  const LowerBound &bound;
  Evaluator &evaluator;
  std::vector<std::vector<uint32_t>> orders;
  std::vector<std::vector<uint32_t>> chunkOrders; // empty: no gathers from chunks
  std::vector<uint32_t> chunkPrefix;              // of an order; `current` is made from it
  /// Simulations that are reserved for chunks. Chunks are tried last, so that they improve on the
  /// best recipe without chunks.
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
    recipe.chunked = fitChunks(space, recipe.kept, chunkPrefix);
  return tryRecipe(std::move(recipe));
}

/// Tries gathers from chunks in this order, as far as the chunks fit beside the kept copies.
bool CoordinateDescent::tryChunks(std::vector<uint8_t> kept, std::span<const uint32_t> order) {
  Recipe recipe = current;
  recipe.chunked = fitChunks(space, kept, order);
  recipe.kept = std::move(kept);
  if ((recipe.kept == current.kept && recipe.chunked == current.chunked) ||
      !tryRecipe(std::move(recipe)))
    return false;
  chunkPrefix.assign(order.begin(), order.end());
  return true;
}

template <typename TryLength>
void CoordinateDescent::descendLengths(const std::set<ptrdiff_t> &lengths, ptrdiff_t all,
                                       TryLength tryLength) {
  auto best = ptrdiff_t(-1);
  auto isBetter = [&](ptrdiff_t length) {
    if (length < 0 || length > all || !tryLength(size_t(length)))
      return false;
    best = length;
    return true;
  };
  for (ptrdiff_t length : lengths)
    isBetter(length);
  if (best < 0)
    return;
  for (ptrdiff_t step = std::max<ptrdiff_t>(1, all / 8); step >= 1;)
    if (!isBetter(best + step) && !isBetter(best - step))
      step /= 2;
}

void CoordinateDescent::descendKeeps(std::span<const uint32_t> order, bool byBound) {
  std::vector<uint32_t> fitting = fitKeeps(space, order);
  auto all = ptrdiff_t(fitting.size());
  std::set<ptrdiff_t> lengths;
  if (byBound) {
    for (double least : {.999, .5, .01})
      lengths.insert(std::count_if(fitting.begin(), fitting.end(),
                                   [&](uint32_t use) { return bound.kept[use] >= least; }));
  } else {
    lengths = {0, 1, 2, 3, all / 4, all / 2, 3 * all / 4, all - 1, all};
  }
  descendLengths(lengths, all,
                 [&](size_t length) { return tryKeeps(std::span(fitting).first(length)); });
}

void CoordinateDescent::descendChunks() {
  for (std::span<const uint32_t> order : chunkOrders) {
    const auto all = ptrdiff_t(order.size());
    descendLengths({all / 4, all / 2, 3 * all / 4, 7 * all / 8, all}, all,
                   [&](size_t length) { return tryChunks(current.kept, order.first(length)); });
  }
}

/// Two orders in which to try gathers from chunks. In the first, chunks with the shortest live
/// ranges come first. In the second, every prefix is spread over the step (multiples of the golden
/// ratio, modulo 1).
static std::vector<std::vector<uint32_t>> orderChunks(const SearchSpace &space) {
  auto orderBy = [&](auto keyOf) {
    std::vector<std::pair<double, uint32_t>> keyed;
    for (size_t i = 0; i < space.mayChunk.size(); ++i)
      keyed.push_back({keyOf(i), space.mayChunk[i]});
    std::sort(keyed.begin(), keyed.end());
    std::vector<uint32_t> order;
    for (auto [key, use] : keyed)
      order.push_back(use);
    return order;
  };
  constexpr double kGoldenRatio = 1.618033988749895;
  return {orderBy([&](size_t i) { return space.gapNs(space.mayChunk[i]); }),
          orderBy([&](size_t i) { return std::fmod(double(i) * kGoldenRatio, 1); })};
}

/// The kept copies have taken all memory, so recipes with fewer kept copies are tried as well.
void CoordinateDescent::tryChunksBesideKeeps() {
  std::vector<uint32_t> kept;
  std::copy_if(orders.front().begin(), orders.front().end(), std::back_inserter(kept),
               [&](uint32_t use) { return current.kept[use]; });
  for (size_t halves : {2, 1, 0})
    for (size_t part : {1, 2, 8})
      tryChunks(keptFlags(space, std::span(kept).first(kept.size() * halves / 2)),
                std::span(chunkOrders.front()).first(space.mayChunk.size() / part));
}

/// Rounds the fractions of the linear program: a use is taken where the running sum of fractions
/// passes a whole number. If all fractions are 3/4, three uses in four are taken.
void CoordinateDescent::tryChunksOfBound() {
  if (bound.chunked.empty())
    return;
  auto round = [&](const std::vector<double> &shares, double sum) {
    std::vector<uint32_t> uses;
    constexpr double kTolerance = 1e-6;
    for (uint32_t use : space.mayKeep)
      if (double before = sum;
          std::floor((sum += shares[use]) + kTolerance) > std::floor(before + kTolerance))
        uses.push_back(use);
    return uses;
  };
  for (double offset : {0., .5})
    tryChunks(keptFlags(space, fitKeeps(space, round(bound.kept, offset))),
              round(bound.chunked, offset));
}

void CoordinateDescent::descendMerging(Merging Recipe::*merging, double latencyBytes) {
  auto tryMerging = [&](Merging value) {
    Recipe recipe = current;
    recipe.*merging = value;
    tryRecipe(std::move(recipe));
  };
  tryMerging({});
  if (!bound.kept.empty())
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

/// Bytes whose transfer takes as long as the latency that merging saves.
double CoordinateDescent::latencyBytes(const CollectiveCost &cost) const {
  return problem.coalesces && cost.nsPerByte > 0 ? cost.latencyNs / cost.nsPerByte : 0;
}

/// Changes buckets and gates of gathers together: small gathers that yield to reductions. Neither
/// change is better alone.
void CoordinateDescent::descendYields(bool mayShareLane) {
  const double gatherBytes = latencyBytes(problem.meshes.front().gatherCost);
  for (double multiple : {0., 1., 4., 8., 16., 32.}) {
    for (double slowdown : {1., 1.05, 1.1, 1.2, 1.4})
      for (bool share : {false, true}) {
        Recipe recipe = current;
        recipe.gathers = {multiple > 0 ? Merging::Threshold : Merging::None,
                          multiple * gatherBytes};
        recipe.latest = slowdown;
        if (mayShareLane)
          recipe.shareLane = share;
        else if (share)
          continue;
        tryRecipe(std::move(recipe));
      }
  }
}

/// Tries all gathers by kernels, all by copy engines, and only large buckets by copy engines.
void CoordinateDescent::descendTransports() {
  if (!problem.hasTransports())
    return;
  constexpr double kNone = std::numeric_limits<double>::infinity();
  descend(&Recipe::copyEngineBytes, {kNone, 0.});
  for (const Mesh &mesh : problem.meshes)
    if (mesh.copyEngineCost)
      for (double multiple : {1., 4., 16., 64.})
        descend(&Recipe::copyEngineBytes, {multiple * latencyBytes(*mesh.copyEngineCost)});
}

/// Tries one lane, if gathers and reductions slow each other down. Returns whether there is a
/// choice.
bool CoordinateDescent::descendLanes() {
  if (problem.oneLane || problem.contention.lanes == 1)
    return false;
  descend(&Recipe::shareLane, {false, true});
  return true;
}

void CoordinateDescent::descendAll() {
  for (size_t i = 0; i < orders.size(); ++i)
    descendKeeps(orders[i], /*byBound=*/i == 1);
  descendTransports();
  descendMerging(&Recipe::gathers, latencyBytes(problem.meshes.front().gatherCost));
  descendMerging(&Recipe::reductions, latencyBytes(problem.meshes.front().reduceCost));
  const bool mayShareLane = descendLanes();
  descend(&Recipe::delay, {Delay{}, {1, true}, {2, true}, {3, true}, {1}, {2}, {3}});
  descend(&Recipe::latest, {0., 1., 1.1, 1.3});
  if (mayShareLane || problem.oneLane)
    descendYields(mayShareLane);
}

void CoordinateDescent::descendRounds() {
  constexpr int kRounds = 2;
  for (int round = 0; round < kRounds && !evaluator.isDone(); ++round) {
    double before = currentNs;
    descendChunks();
    descendAll();
    if (currentNs >= before)
      break;
  }
}

void CoordinateDescent::run() {
  Recipe start;
  start.kept = space.alwaysKept;
  if (bound.kept.empty()) {
    start.gathers = {Merging::Threshold, 2 * latencyBytes(problem.meshes.front().gatherCost), 0};
    start.reductions = {Merging::Threshold, 2 * latencyBytes(problem.meshes.front().reduceCost), 0};
  }
  tryRecipe(start);
  if (current.kept.empty())
    return;
  descendLanes();
  descendTransports();
  descendRounds();
  if (space.mayChunk.empty())
    return;

  numReserved = 0;
  chunkOrders = orderChunks(space);
  double before = currentNs;
  tryChunksBesideKeeps();
  tryChunksOfBound();
  if (currentNs < before)
    descendRounds();

  // The best recipe without chunks has buckets and gates for many gathers from all ranks. So the
  // descent runs once more, from a recipe with chunks alone.
  current = std::move(start);
  currentNs = std::numeric_limits<double>::infinity();
  tryChunks(current.kept, chunkOrders.front());
  tryChunksOfBound();
  descendRounds();
}

void fsdp::schedule::descendCoordinates(const SearchSpace &space, const LowerBound &bound,
                                        Evaluator &evaluator) {
  CoordinateDescent(space, bound, evaluator).run();
}
