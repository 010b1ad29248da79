//===- CoordinateDescent.cpp - One parameter of the recipe at a time ------===//

#include "Bucketing.h"
#include "Evaluator.h"

#include <cmath>
#include <limits>
#include <utility>

using namespace fsdp::schedule;

namespace {

class CoordinateDescent {
public:
  CoordinateDescent(const SearchSpace &space, const LowerBound &bound, Evaluator &evaluator)
      : space(space), problem(space.problem), bound(bound), evaluator(evaluator),
        chunkOrder(orderByGap(space, space.mayChunk)),
        numReserved(space.mayChunk.empty() ? 0 : evaluator.numLeft() / 2) {}

  void run();

private:
  /// Replaces the current recipe if this recipe is better.
  void tryRecipe(Recipe recipe);
  /// Tries copies and chunks in these orders, as far as they fit into memory.
  void tryUses(std::span<const uint32_t> kept, std::span<const uint32_t> chunked);
  void tryUsesOfBound();
  void descendMerging(double Recipe::*bucketBytes, double latencyBytes);
  double latencyBytes(const CollectiveCost &cost) const;
  void descendYields(bool mayShareLane);
  template <typename T> void descend(T Recipe::*field, std::initializer_list<T> values);
  void descendAll();

  const SearchSpace &space;
  const Problem &problem;
  const LowerBound &bound;
  Evaluator &evaluator;
  const std::vector<uint32_t> chunkOrder;
  /// Simulations that are reserved for chunks. Chunks are tried last, so that they improve on the
  /// best recipe without chunks.
  int64_t numReserved;
  Recipe current;
  double currentNs = std::numeric_limits<double>::infinity();
};

} // namespace

void CoordinateDescent::tryRecipe(Recipe recipe) {
  if (evaluator.isDone() || evaluator.numLeft() <= numReserved)
    return;
  double makespanNs = evaluator.evaluate(makeDecisions(space, recipe));
  if (makespanNs >= currentNs)
    return;
  currentNs = makespanNs;
  current = std::move(recipe);
}

void CoordinateDescent::tryUses(std::span<const uint32_t> kept, std::span<const uint32_t> chunked) {
  Recipe recipe = current;
  recipe.kept = fitKeeps(space, kept);
  recipe.chunked = fitChunks(space, recipe.kept, chunked);
  if (recipe.kept != current.kept || recipe.chunked != current.chunked)
    tryRecipe(std::move(recipe));
}

/// Rounds the fractions of the linear program cumulatively: of uses with a fraction of 3/4, three
/// in four are taken.
void CoordinateDescent::tryUsesOfBound() {
  if (bound.kept.empty())
    return;
  auto round = [&](const std::vector<double> &fractions, double sum) {
    constexpr double kTolerance = 1e-6;
    std::vector<uint32_t> uses;
    for (uint32_t use : space.mayKeep) {
      double before = std::floor(sum + kTolerance);
      sum += fractions[use];
      if (std::floor(sum + kTolerance) > before)
        uses.push_back(use);
    }
    return uses;
  };
  for (double offset : {0., .5})
    tryUses(round(bound.kept, offset), round(bound.chunked, offset));
}

template <typename T>
void CoordinateDescent::descend(T Recipe::*field, std::initializer_list<T> values) {
  for (const T &value : values) {
    Recipe recipe = current;
    recipe.*field = value;
    tryRecipe(std::move(recipe));
  }
}

void CoordinateDescent::descendMerging(double Recipe::*bucketBytes, double latencyBytes) {
  for (double multiple : {0., .5, 1., 2., 4., 8., 16., 32.})
    descend(bucketBytes, {multiple * latencyBytes});
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
        if (share && !mayShareLane)
          continue;
        Recipe recipe = current;
        recipe.gatherBytes = multiple * gatherBytes;
        recipe.latest = slowdown;
        recipe.shareLane = share;
        tryRecipe(std::move(recipe));
      }
  }
}

void CoordinateDescent::descendAll() {
  const bool mayShareLane = !problem.oneLane && problem.contention.lanes > 1;
  if (mayShareLane)
    descend(&Recipe::shareLane, {false, true});
  if (problem.hasTransports())
    descend(&Recipe::byCopyEngine, {false, true});
  descendMerging(&Recipe::gatherBytes, latencyBytes(problem.meshes.front().gatherCost));
  descendMerging(&Recipe::reductionBytes, latencyBytes(problem.meshes.front().reduceCost));
  descend(&Recipe::latest, {0., 1., 1.1, 1.3});
  if (mayShareLane || problem.oneLane)
    descendYields(mayShareLane);
}

void CoordinateDescent::run() {
  const Recipe start{space.alwaysKept};
  tryRecipe(start);
  if (current.kept.empty())
    return;
  tryUses(orderByGap(space, space.mayKeep), {});
  descendAll();
  if (space.mayChunk.empty())
    return;

  numReserved = 0;
  double before = currentNs;
  for (size_t part : {1, 2, 8})
    tryUses({}, std::span(chunkOrder).first(chunkOrder.size() / part));
  tryUsesOfBound();
  if (currentNs < before)
    descendAll();

  // The best recipe without chunks has buckets and gates for many gathers from all ranks. So the
  // descent runs once more, from a recipe with chunks alone.
  current = start;
  currentNs = std::numeric_limits<double>::infinity();
  tryUses({}, chunkOrder);
  tryUsesOfBound();
  descendAll();
}

void fsdp::schedule::descendCoordinates(const SearchSpace &space, const LowerBound &bound,
                                        Evaluator &evaluator) {
  CoordinateDescent(space, bound, evaluator).run();
}
