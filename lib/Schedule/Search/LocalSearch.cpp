//===- LocalSearch.cpp - Annealing over explicit decisions ----------------===//

#include "Annealing.h"
#include "RandomMove.h"
#include "Search.h"

#include <algorithm>
#include <cmath>

using namespace fsdp::schedule;

static void anneal(const SearchSpace &space, bool merge, EvaluatedDecisions current, int64_t budget,
                   Draws &draws, Evaluator &evaluator) {
  std::vector<uint32_t> launches; // by use, in the plan of `current`
  const int64_t begin = evaluator.numSimulations();
  // With few simulations the temperature starts lower: there is no time to cool down again.
  constexpr double kMany = 12'000, kFirstTemperature = 1e-4, kShare = .15;
  double warmth = std::min(1., double(budget) / kMany);
  Annealing annealing(kFirstTemperature * warmth * current.makespanNs, kShare * warmth);
  // Decisions that were tried before cost no simulation, so that moves need a limit of their own.
  constexpr int64_t kMovesPerSimulation = 4;
  for (int64_t moves = 0; !evaluator.isDone() && moves < kMovesPerSimulation * budget &&
                          evaluator.numSimulations() < begin + budget;
       ++moves) {
    Decisions next = current.decisions;
    if (!RandomMove(space, merge, launches, draws, next).make())
      continue;
    int64_t before = evaluator.numSimulations();
    double nextNs = evaluator.evaluate(next);
    double progress = std::max(double(before - begin) / double(budget),
                               double(moves) / double(kMovesPerSimulation * budget));
    if (!annealing.accepts(nextNs - current.makespanNs, progress, draws))
      continue;
    current = {std::move(next), nextNs};
    if (evaluator.numSimulations() > before)
      launches = evaluator.lastLaunches();
  }
}

/// A large budget is split over several runs from the same decisions: two runs find more than one
/// run of twice the length.
void fsdp::schedule::searchLocally(const SearchSpace &space, bool merge, uint64_t seed,
                                   Evaluator &evaluator) {
  constexpr int64_t kLongRun = 25'000;
  const EvaluatedDecisions start = evaluator.bestDecisions();
  if (std::isinf(start.makespanNs))
    return;
  Draws draws(seed);
  const int64_t budget = evaluator.numLeft(), numRuns = std::max<int64_t>(1, budget / kLongRun);
  for (int64_t run = 0; run < numRuns; ++run)
    anneal(space, merge, start, budget / numRuns, draws, evaluator);
}
