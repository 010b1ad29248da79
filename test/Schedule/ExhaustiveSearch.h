//===- ExhaustiveSearch.h - All plans of a tiny problem ---------*- C++ -*-===//

#ifndef FSDP_TEST_SCHEDULE_EXHAUSTIVESEARCH_H
#define FSDP_TEST_SCHEDULE_EXHAUSTIVESEARCH_H

#include "fsdp/Schedule/ListSchedule.h"

#include <functional>

namespace fsdp::schedule {

/// Calls `visit` with every plan that keeps the rules of Plan.h, whatever memory it needs. Without
/// help of `verify`. There are thousands of plans for four uses and two reductions.
void forEachPlan(const Problem &problem, const std::function<void(const Plan &)> &visit);

/// The least makespan of any plan whose peak is at most the cap, by cap; infinity if none fits.
std::vector<double> findOptima(const Problem &problem, const std::vector<int64_t> &capsBytes);

} // namespace fsdp::schedule

#endif // FSDP_TEST_SCHEDULE_EXHAUSTIVESEARCH_H
