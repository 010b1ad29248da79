//===- LocalSearch.cpp - Annealing over explicit decisions ----------------===//

#include "Annealing.h"
#include "RandomMove.h"
#include "Search.h"

#include <algorithm>
#include <cmath>

using namespace fsdp::schedule;

void fsdp::schedule::searchLocally(const SearchSpace &space, bool merge, uint64_t seed,
                                   Evaluator &evaluator) {
  Decisions current = evaluator.bestDecisions().decisions;
  double currentNs = evaluator.bestDecisions().makespanNs;
  if (std::isinf(currentNs))
    return;
  Draws draws(seed);
  std::vector<uint32_t> launches; // by use, in the plan of `current`
  const int64_t begin = evaluator.numSimulations(), budget = evaluator.numLeft();
  // Where there are too few simulations to cool down again it stays cooler.
  constexpr double kMany = 12'000, kFirstTemperature = 1e-4, kShare = .15;
  double warmth = std::min(1., double(budget) / kMany);
  Annealing annealing(kFirstTemperature * warmth * currentNs, kShare * warmth);
  // Decisions that were tried before cost no simulation: not to go on for ever where there are few.
  constexpr int64_t kMovesPerSimulation = 4;
  for (int64_t moves = 0; !evaluator.isDone() && moves < kMovesPerSimulation * budget; ++moves) {
    Decisions next = current;
    if (!RandomMove(space, merge, launches, draws, next).make())
      continue;
    int64_t before = evaluator.numSimulations();
    double nextNs = evaluator.evaluate(next);
    double progress = std::max(double(before - begin) / double(budget),
                               double(moves) / double(kMovesPerSimulation * budget));
    if (!annealing.accepts(nextNs - currentNs, progress, draws))
      continue;
    current = std::move(next);
    currentNs = nextNs;
    if (evaluator.numSimulations() > before)
      launches = evaluator.lastLaunches();
  }
}
