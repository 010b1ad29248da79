//===- FluidBound.cpp - The bound of the linear program -------------------===//

#include "FluidModel.h"

#include <algorithm>

using namespace fsdp::schedule;

static std::vector<double> valuesOf(const std::vector<Column> &columns,
                                    const LinearProgram::Solution &solution) {
  std::vector<double> values;
  for (Column column : columns)
    values.push_back(std::clamp(solution.valueOf(column), 0.0, 1.0));
  return values;
}

LowerBound fsdp::schedule::fluidBound(const Problem &problem, const FluidOptions &options) {
  LowerBound bound = quickBound(problem);
  if (problem.operations.empty())
    return bound;
  FluidModel model = buildFluidModel(problem, options);
  auto raise = [&](double makespan) {
    if (double makespanNs = makespan * model.timeUnitNs; makespanNs > bound.makespanNs) {
      bound.makespanNs = makespanNs;
      bound.kind = BoundKind::Fluid;
    }
  };
  if (options.boundOnly) {
    if (std::optional<double> makespan = model.program.boundByInteriorPoint(options.iterationLimit))
      raise(*makespan);
    return bound;
  }
  std::optional<LinearProgram::Solution> solution = model.program.solve(options.iterationLimit);
  if (!solution)
    return bound;
  raise(solution->bound);
  bound.kept = valuesOf(model.kept, *solution);
  std::vector<int32_t> previous = problem.previousUses();
  for (size_t u = 0; u < problem.uses.size(); ++u)
    if (previous[u] >= 0 && problem.groups[problem.uses[u].group].keep == KeepRule::Always)
      bound.kept[u] = 1;
  bound.mergedGathers = valuesOf(model.mergedGathers, *solution);
  bound.mergedReductions = valuesOf(model.mergedReductions, *solution);
  return bound;
}
