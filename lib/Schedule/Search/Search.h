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

/// Changes one parameter of the recipe at a time (keeps, the size of buckets, gates) and keeps the
/// change if the makespan falls. Starts from the solution of the LP relaxation. Without a solution
/// it starts from buckets whose latency is a third of their duration.
void descendCoordinates(const SearchSpace &space, const LowerBound &bound, Evaluator &evaluator);

/// Local search by simulated annealing (Kirkpatrick et al. 1983): random moves from the best
/// decisions, at a temperature that falls over the rest of the budget.
void searchLocally(const SearchSpace &space, uint64_t seed, Evaluator &evaluator);

} // namespace fsdp::schedule

#endif // FSDP_SCHEDULE_SEARCH_H
