//===- LocalSearch.cpp - Annealing over explicit decisions ----------------===//

#include "LocalSearch.h"

#include "Evaluator.h"

#include <algorithm>
#include <cmath>

using namespace fsdp::schedule;

void fsdp::schedule::searchLocally(const SearchSpace &space, uint64_t seed,
                                   EvaluatedDecisions current, Evaluator &evaluator) {
  if (std::isinf(current.makespanNs))
    return;
  Draws draws(seed);
  std::vector<uint32_t> launches; // by use, in the plan of `current`
  const int64_t begin = evaluator.numSimulations(), budget = evaluator.numLeft();
  // With few simulations the temperature starts lower, since there is no time to cool down.
  constexpr double kMany = 12'000, kFirstTemperature = 1e-4, kShare = .15;
  double warmth = std::min(1., double(budget) / kMany);
  Annealing annealing(kFirstTemperature * warmth * current.makespanNs, kShare * warmth);
  // Moves that change nothing cost no simulation, so moves need a limit of their own.
  constexpr int64_t kMovesPerSimulation = 4;
  for (int64_t moves = 0; !evaluator.isDone() && moves < kMovesPerSimulation * budget; ++moves) {
    Decisions next = current.decisions;
    if (!RandomMove(space, launches, draws, next).make())
      continue;
    double progress = std::max(double(evaluator.numSimulations() - begin) / double(budget),
                               double(moves) / double(kMovesPerSimulation * budget));
    double nextNs = evaluator.evaluate(next);
    if (!annealing.accepts(nextNs - current.makespanNs, progress, draws))
      continue;
    current = {std::move(next), nextNs};
    launches = evaluator.lastLaunches();
  }
}
