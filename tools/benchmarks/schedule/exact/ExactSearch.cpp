//===- ExactSearch.cpp - The best plan of a small problem -----------------===//

#include "ExactSearch.h"

#include "LabelSearch.h"

using namespace fsdp::schedule;

std::optional<ExactResult> fsdp::schedule::searchExactly(const Problem &problem, double targetNs,
                                                         int64_t partialPlanLimit) {
  if (problem.acrossCost)
    return std::nullopt;
  std::optional<LabelProblem> labels = makeLabelProblem(problem);
  if (!labels)
    return std::nullopt;
  LabelSearchResult found = searchLabels(*labels, targetNs, partialPlanLimit);
  return ExactResult{found.boundNs, found.isComplete, std::move(found.plan), found.labels};
}
