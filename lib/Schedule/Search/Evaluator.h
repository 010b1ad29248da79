//===- Evaluator.h - Simulates decisions, and the steps of the search -*- C++ -*-===//

#ifndef FSDP_SCHEDULE_EVALUATOR_H
#define FSDP_SCHEDULE_EVALUATOR_H

#include "SearchSpace.h"
#include "fsdp/Schedule/ListSchedule.h"
#include "fsdp/Schedule/Optimize.h"

#include <limits>

namespace fsdp::schedule {

struct Incumbent {
  Plan plan;
  double makespanNs = 0;
  std::string origin;
};

struct EvaluatedDecisions {
  Decisions decisions;
  double makespanNs = std::numeric_limits<double>::infinity();
};

/// Counts simulations, keeps the best plans.
class Evaluator {
public:
  Evaluator(const Problem &problem, const OptimizeOptions &options);

  /// The makespan of the list schedule; infinity if the decisions have none.
  double evaluate(const Decisions &decisions);
  /// By use: the launch of its gather in the plan that was simulated last.
  const std::vector<uint32_t> &lastLaunches() const { return launches; }
  /// Considers a plan of another algorithm. The plan must not have buckets of several members.
  void consider(Plan plan);

  /// Whether the bound is met or the budget is spent.
  bool isDone() const { return isWithin(options.targetRatio) || simulations >= limit; }
  /// Whether the best makespan is at most `ratio` times the bound.
  bool isWithin(double ratio) const {
    return isFound() && best().makespanNs <= std::max(boundNs, options.knownBoundNs) * ratio;
  }
  bool isFound() const { return !pool.empty(); }
  const Incumbent &best() const { return pool.front(); }
  /// The best plans within `kNearlyEqual`, best first.
  const std::vector<Incumbent> &candidates() const { return pool; }
  /// The decisions with the best list schedule; infinite makespan if no list schedule exists yet.
  const EvaluatedDecisions &bestDecisions() const { return decided; }
  int64_t numLeft() const { return limit - simulations; }
  int64_t numSimulations() const { return simulations; }

  void setBound(double makespanNs) { boundNs = makespanNs; }
  /// Sets the limit to `count` simulations in all.
  void limitSimulations(int64_t count) { limit = count; }
  void setOrigin(std::string_view name) { origin = name; }

  /// Plans whose makespans differ by less than this factor are equally good on a real machine.
  static constexpr double kNearlyEqual = 1.002;

private:
  void offer(Plan &&plan, double makespanNs);

  const Problem &problem;
  const OptimizeOptions &options;
  ListScheduler schedule;
  std::vector<Incumbent> pool;
  EvaluatedDecisions decided;
  std::vector<uint32_t> launches;
  std::string origin;
  double boundNs = 0;
  int64_t simulations = 0, limit;
};

/// Changes one parameter of the recipe at a time (buckets, gates, lanes) and keeps the change if
/// the makespan falls. Where chunks are possible, also tries what `bound` keeps and gathers from
/// chunks.
void descendCoordinates(const SearchSpace &space, const LowerBound &bound, Evaluator &evaluator);

/// Local search by simulated annealing (Kirkpatrick et al. 1983): random moves from
/// `current`, at a temperature that falls over the rest of the budget.
void searchLocally(const SearchSpace &space, uint64_t seed, EvaluatedDecisions current,
                   Evaluator &evaluator);

} // namespace fsdp::schedule

#endif // FSDP_SCHEDULE_EVALUATOR_H
