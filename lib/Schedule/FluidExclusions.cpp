//===- FluidExclusions.cpp - A gather or a reduction, not both -------------===//

#include "ComputeTimes.h"
#include "FluidRows.h"

#include <algorithm>

using namespace fsdp::schedule;

/// Gathers behind a reduction that are looked at.
static constexpr uint32_t kNextGathers = 4;

namespace {

/// Times after a reduction is ready.
struct Outcome {
  double arriveNs; // computation arrives where the next reduction is ready, at the earliest
  double beginNs;  // the use begins, at the earliest
};

/// What can come of a reduction and a gather that do not fit beside each other.
struct Exclusion {
  std::vector<Outcome> outcomes; // if the gather happens; empty if they fit everywhere
  Outcome kept;                  // if the copy is kept
};

class ExclusionFinder {
public:
  ExclusionFinder(const Problem &problem, const CollectiveWindows &windows);
  /// The position up to the use at which the last reduction but this one is ready, else the use's.
  uint32_t findArrival(const ReductionWindow &reduction, const GatherWindow &gather) const;
  Exclusion find(const ReductionWindow &reduction, const GatherWindow &gather) const;

private:
  const Problem &problem;
  const CollectiveWindows &windows;
  const ComputeTimes computeNs;
};

} // namespace

/// Of all a * arrive + begin, a >= 0, those outcomes remain that are the least for some a; the
/// earliest arrival first.
static void keepLowerHull(std::vector<Outcome> &outcomes) {
  std::sort(outcomes.begin(), outcomes.end(), [](const Outcome &a, const Outcome &b) {
    return a.arriveNs < b.arriveNs || (a.arriveNs == b.arriveNs && a.beginNs < b.beginNs);
  });
  std::vector<Outcome> hull;
  for (const Outcome &outcome : outcomes) {
    if (!hull.empty() && outcome.beginNs >= hull.back().beginNs)
      continue;
    auto isAbove = [&] { // whether the last one lies on or above the line past it
      const Outcome &a = hull[hull.size() - 2], &b = hull.back();
      return (b.beginNs - a.beginNs) * (outcome.arriveNs - a.arriveNs) >=
             (outcome.beginNs - a.beginNs) * (b.arriveNs - a.arriveNs);
    };
    while (hull.size() >= 2 && isAbove())
      hull.pop_back();
    hull.push_back(outcome);
  }
  outcomes = std::move(hull);
}

ExclusionFinder::ExclusionFinder(const Problem &problem, const CollectiveWindows &windows)
    : problem(problem), windows(windows), computeNs(problem) {}

uint32_t ExclusionFinder::findArrival(const ReductionWindow &reduction,
                                      const GatherWindow &gather) const {
  auto after = std::partition_point(
      windows.reductions.begin(), windows.reductions.end(),
      [&](const ReductionWindow &other) { return other.ready <= gather.first; });
  uint32_t last = std::prev(after)->ready;
  return last > reduction.ready ? last : gather.first;
}

/// Let a reduction be ready at position r, and a later use begin with operation f. Beside some
/// operations between them, the tight ones, its input and the use's copy do not fit together. Let
/// the reduction be waited for at w, and the gather be launched at p, which is after the waits of
/// that position. No tight operation lies in [p, w).
///   w <= p: the gather followed the reduction, and the use both.
///   p < w, and no tight operation lies behind w: the gather followed the last of them.
///   p < w, and k is the first tight operation behind w: the one before it lies before p, not just
///   before k. Computation from k on followed the reduction; the gather followed the one before k.
/// Computation from r to f took its time in any case. If the copy was kept, it was there at the
/// first tight operation behind the use before, and computation from there on followed the
/// reduction.
Exclusion ExclusionFinder::find(const ReductionWindow &reduction,
                                const GatherWindow &gather) const {
  double reduceNs = problem.reduceCost.durationNs(reduction.inputBytes);
  double gatherNs = problem.gatherCost.durationNs(gather.sizeBytes);
  uint32_t ready = reduction.ready, first = gather.first, arrival = findArrival(reduction, gather);
  const Outcome least{computeNs(ready, arrival), computeNs(ready, first)};
  Exclusion result{{}, least};
  auto add = [&](double arriveNs, double beginNs) {
    result.outcomes.push_back(
        {std::max(arriveNs, least.arriveNs), std::max(beginNs, least.beginNs)});
  };
  uint32_t behindTight = 0;
  bool isKeptTight = false;
  for (uint32_t k = ready; k < first; ++k) {
    if (windows.slackBytes[k] >= gather.sizeBytes + reduction.excessBytes)
      continue;
    double behindReduction = reduceNs + computeNs(k, first);
    if (!isKeptTight && k >= gather.keptFrom) {
      isKeptTight = true;
      result.kept.beginNs = std::max(least.beginNs, behindReduction);
    }
    if (behindTight == 0 || k > behindTight)
      add(k < arrival ? reduceNs + computeNs(k, arrival) : 0,
          std::max(behindReduction,
                   behindTight > 0 ? computeNs(ready, behindTight) + gatherNs : 0));
    behindTight = k + 1;
  }
  if (behindTight == 0)
    return result;
  add(0, computeNs(ready, behindTight) + gatherNs);
  add(0, reduceNs + gatherNs);
  keepLowerHull(result.outcomes);
  return result;
}

/// The sum of the use's begin and `slope` times the arrival is at least that of the outcomes for
/// which it is the least: a row for each edge of their hull, and one for the begin alone.
void FluidRows::addExclusions() {
  if (!problem.memoryCapBytes)
    return;
  constexpr double kSteepest = 20; // such rows say next to nothing
  ExclusionFinder finder(problem, windows);
  for (const ReductionWindow &reduction : windows.reductions) {
    auto gather = std::partition_point(
        windows.gathers.begin(), windows.gathers.end(),
        [&](const GatherWindow &gather) { return gather.first <= reduction.ready; });
    for (uint32_t i = 0; i < kNextGathers && gather != windows.gathers.end(); ++i, ++gather) {
      Exclusion exclusion = finder.find(reduction, *gather);
      Column kept = choices.kept[size_t(gather - windows.gathers.begin())];
      Expression ready = segmentAt(reduction.ready).before.time;
      Expression begin = segmentAt(gather->first).start.time;
      Expression arrive = segmentAt(finder.findArrival(reduction, *gather)).before.time;
      auto require = [&](const Outcome &outcome, double slope) {
        auto sumOf = [&](const Outcome &it) {
          return (it.beginNs + slope * it.arriveNs) / timeUnitNs;
        };
        double least = sumOf(outcome), leastKept = std::min(least, sumOf(exclusion.kept));
        program.requireAtLeast(begin + slope * arrive - (1 + slope) * ready,
                               least - (least - leastKept) * Expression(kept));
      };
      for (size_t j = 0; j < exclusion.outcomes.size(); ++j) {
        const Outcome &outcome = exclusion.outcomes[j];
        if (j + 1 == exclusion.outcomes.size()) {
          require(outcome, 0);
          continue;
        }
        const Outcome &next = exclusion.outcomes[j + 1];
        double slope = (outcome.beginNs - next.beginNs) / (next.arriveNs - outcome.arriveNs);
        if (slope < kSteepest)
          require(next, slope);
      }
    }
  }
}
