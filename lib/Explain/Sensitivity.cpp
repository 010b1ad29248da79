//===- Sensitivity.cpp - Effects of other hardware ------------------------===//

#include "fsdp/Explain/Sensitivity.h"

#include "fsdp/Explain/Quantities.h"
#include "fsdp/Explain/TextTable.h"
#include "fsdp/Schedule/Optimize.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace fsdp::explain;
using namespace fsdp::schedule;
using Align = TextTable::Align;

static Problem withNetwork(Problem problem, double factor) {
  auto scale = [factor](CollectiveCost &cost) { cost = cost.scaled(factor); };
  for (Mesh &mesh : problem.meshes) {
    scale(mesh.gatherCost);
    scale(mesh.reduceCost);
    for (std::optional<CollectiveCost> *cost : {&mesh.acrossCost, &mesh.copyEngineCost})
      if (*cost)
        scale(**cost);
  }
  for (Group &group : problem.groups)
    for (Chunk &chunk : group.chunks)
      scale(chunk.gatherCost);
  return problem;
}

static Problem withComputation(Problem problem, double factor) {
  for (Operation &operation : problem.operations)
    operation.durationNs *= factor;
  for (Group &group : problem.groups)
    for (Chunk &chunk : group.chunks)
      chunk.copyNs *= factor;
  return problem;
}

/// The duration of a new schedule with more memory.
static double findStepNs(Problem problem, const Plan &plan, int64_t moreBytes) {
  *problem.memoryCapBytes += moreBytes;
  OptimizeOptions options;
  options.simulationBudget = 300;
  std::optional<Outcome> found = optimize(problem, options);
  double stepNs = makespanNs(problem, plan);
  return found ? std::min(stepNs, found->makespanNs) : stepNs;
}

std::vector<WhatIf> fsdp::explain::findSensitivity(const Problem &problem, const Plan &plan,
                                                   const std::optional<Problem> &fasterHost) {
  constexpr int64_t kMore = int64_t(1) << 30;
  std::vector<WhatIf> changes = {
      {"network 10 % slower", makespanNs(withNetwork(problem, 1.1), plan)},
      {"network 10 % faster", makespanNs(withNetwork(problem, 0.9), plan)},
      {"network twice as fast", makespanNs(withNetwork(problem, 0.5), plan)},
      {"computation 10 % slower", makespanNs(withComputation(problem, 1.1), plan)},
      {"computation 10 % faster", makespanNs(withComputation(problem, 0.9), plan)}};
  if (fasterHost)
    changes.push_back({"copies to and from the host twice as fast", makespanNs(*fasterHost, plan)});
  if (problem.memoryCapBytes)
    changes.push_back(
        {formatBytes(kMore) + " more memory, scheduled anew", findStepNs(problem, plan, kMore)});
  return changes;
}

void fsdp::explain::printSensitivity(const std::vector<WhatIf> &changes, double stepNs,
                                     llvm::raw_ostream &os) {
  os << "\nwhat if\n";
  TextTable table({{"", Align::Left}, {"step", Align::Right}, {"change", Align::Right}});
  for (const WhatIf &change : changes) {
    double differenceNs = change.stepNs - stepNs;
    std::string sign = differenceNs > 0 ? "+" : differenceNs < 0 ? "-" : "";
    table.addRow({change.change, formatTime(change.stepNs),
                  differenceNs == 0 ? "="
                                    : sign + formatTime(std::abs(differenceNs)) +
                                          llvm::formatv(" ({0}{1:f2} %)", sign,
                                                        100 * std::abs(differenceNs) / stepNs)
                                              .str()});
  }
  table.print(os, 2);
}
