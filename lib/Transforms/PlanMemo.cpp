//===- PlanMemo.cpp - Searches that have been made ------------------------===//

#include "fsdp/Transforms/PlanMemo.h"

using namespace fsdp;

std::optional<schedule::Outcome> PlanMemo::optimize(const schedule::Problem &problem,
                                                    const schedule::OptimizeOptions &options) {
  for (const Search &search : searches)
    if (search.options == options && search.problem == problem)
      return search.outcome;
  if (searches.size() == kMostSearches)
    searches.pop_front();
  searches.push_back({problem, options, schedule::optimize(problem, options)});
  return searches.back().outcome;
}
