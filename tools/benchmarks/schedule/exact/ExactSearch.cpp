//===- ExactSearch.cpp - The best plan of a small problem -----------------===//

#include "ExactSearch.h"

#include "LabelSearch.h"

#include <algorithm>

using namespace fsdp::schedule;

std::optional<ExactResult> fsdp::schedule::searchExactly(const Problem &problem, double targetNs,
                                                         int64_t partialPlanLimit) {
  bool hasChunks = std::any_of(problem.groups.begin(), problem.groups.end(),
                               [](const Group &group) { return !group.chunks.empty(); });
  if (problem.hasReplicas() || problem.meshes.size() > 1 || hasChunks ||
      problem.meshes.front().copyEngineCost)
    return std::nullopt;
  std::optional<LabelProblem> labels = makeLabelProblem(problem);
  if (!labels)
    return std::nullopt;
  LabelSearchResult found = searchLabels(*labels, targetNs, partialPlanLimit);
  return ExactResult{found.boundNs, found.isComplete, std::move(found.plan), found.labels};
}
