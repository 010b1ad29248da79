//===- SearchBound.cpp - Keeping and merging in whole numbers -------------===//

#include "FluidModel.h"

#include <algorithm>
#include <limits>

using namespace fsdp::schedule;

/// A plan this close to the bound counts as optimal.
static constexpr double kClosedGap = 1e-4;

/// HiGHS's tolerance for whole numbers and for feasibility. The bound is lowered by this share of
/// the makespan.
static constexpr double kTolerance = 1e-6;

/// Choices in a part of the step, and nodes of the search in it; most parts need fewer nodes.
static constexpr size_t kChoicesOfPart = 24;
static constexpr int64_t kNodesOfPart = 1000;

/// Rounds of rows from parts of the step.
static constexpr int kMostRounds = 8;

/// The search over the whole step does not end with more choices than this.
static constexpr size_t kMostChoices = 200;

/// Adds rows from parts of the step, each with its choices whole, until the bound is at least
/// `target` or hardly rises. In every second round the parts are shifted by half a part.
/// Returns the program's bound.
static double tightenParts(LinearProgram &program, double bound, double target) {
  const std::vector<double> places = program.integerPlaces();
  const double infinity = std::numeric_limits<double>::infinity();
  int idle = 0;
  for (int round = 0; round < kMostRounds && idle < 2 && bound < target; ++round) {
    std::optional<LinearProgram::Solution> solution = program.solve(FluidOptions().iterationLimit);
    if (!solution)
      return bound;
    bound = std::max(bound, solution->bound);
    double rise = 0, begin = -infinity;
    size_t next = round % 2 ? kChoicesOfPart / 2 : kChoicesOfPart;
    while (begin < infinity) {
      double end = next < places.size() ? places[next] : infinity;
      rise += program.tighten(*solution, begin, end, kNodesOfPart);
      begin = end;
      next += kChoicesOfPart;
    }
    idle = rise > kClosedGap * bound / 10 ? 0 : idle + 1;
  }
  if (std::optional<LinearProgram::Solution> solution =
          program.solve(FluidOptions().iterationLimit))
    bound = std::max(bound, solution->bound);
  return bound;
}

LowerBound fsdp::schedule::searchBound(const Problem &problem, double upperNs, int64_t nodeLimit,
                                       double ratio) {
  LowerBound bound = fluidBound(problem, {});
  const double targetNs = upperNs * (1 - kClosedGap);
  if (problem.operations.empty() || bound.makespanNs >= targetNs)
    return bound;
  FluidModel model = buildFluidModel(problem, {.thorough = true}), whole = model;
  auto raise = [&](double foundNs, double mostNs) {
    const double makespanNs = std::min(foundNs, mostNs) * (1 - kTolerance);
    if (makespanNs > bound.makespanNs) {
      bound.makespanNs = makespanNs;
      bound.kind = BoundKind::Search;
    }
  };
  const double partsNs = tightenParts(model.program, bound.makespanNs / model.timeUnitNs,
                                      targetNs / model.timeUnitNs) *
                         model.timeUnitNs;
  raise(partsNs, targetNs);
  const double wantedNs = std::min(targetNs, upperNs / ratio * (1 + 2 * kTolerance));
  if (partsNs >= wantedNs || whole.program.integerPlaces().size() > kMostChoices)
    return bound;
  // Without the rows of parts, which have many entries. Only what is faster is searched for: if
  // there is nothing, this is a bound.
  whole.program.setUpper(whole.makespan, wantedNs / model.timeUnitNs);
  if (std::optional<double> searched = whole.program.branchAndBound(nodeLimit))
    raise(*searched * model.timeUnitNs, wantedNs);
  return bound;
}
