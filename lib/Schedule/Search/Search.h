//===- Search.h - The steps of `auto` -----------------------------*- C++ -*-===//
//
// Private to lib/Schedule. Each step tries decisions through the evaluator, which keeps the best
// and says when to stop.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_SEARCH_H
#define FSDP_SCHEDULE_SEARCH_H

#include "Bucketing.h"
#include "Evaluator.h"

namespace fsdp::schedule {

/// Changes one line of the recipe at a time and keeps what is better: what is kept, the size of
/// buckets, gates, priorities. With `rounding`, starts from the relaxation's solution, else from
/// buckets whose latency is a third of their duration.
void descendCoordinates(const SearchSpace &space, const LowerBound &bound, bool merge,
                        bool rounding, Evaluator &evaluator);

/// Merges neighbouring buckets of the best decisions, or moves a member from one to the other, once
/// over all of them.
void mergeNeighbours(const SearchSpace &space, Evaluator &evaluator);

/// Simulated annealing (Kirkpatrick et al. 1983) from the best decisions: random moves, whose
/// temperature falls over what is left of the budget, or over shares of it where that is much.
void searchLocally(const SearchSpace &space, bool merge, uint64_t seed, Evaluator &evaluator);

} // namespace fsdp::schedule

#endif // FSDP_SCHEDULE_SEARCH_H
