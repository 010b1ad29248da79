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
/// buckets, gates. Starts from the relaxation's solution, or, if there is none, from buckets whose
/// latency is a third of their duration.
void descendCoordinates(const SearchSpace &space, const LowerBound &bound, Evaluator &evaluator);

/// Simulated annealing (Kirkpatrick et al. 1983) from the best decisions: random moves, whose
/// temperature falls over what is left of the budget.
void searchLocally(const SearchSpace &space, uint64_t seed, Evaluator &evaluator);

} // namespace fsdp::schedule

#endif // FSDP_SCHEDULE_SEARCH_H
