//===- FluidStages.cpp - Gathers that go on without a pause ----------------===//
//
// Where each reduction has to end soon after it is ready, computation goes from stage to stage:
// stage k is the time from deadline k - 1 (the first, from readiness) to deadline k. A reduction
// takes up most of its stage, and what is left is of use to few gathers: one that has begun goes on
// until it has ended, so that it lies in few stages, and slows down the reductions of those.
//
// Reduction k is early if it has ended before its stage. If it is not, its stage has all of it but
// what was done beside the operations from readiness to deadline k - 1: no use begins there, so
// that computation stands still there for nothing but reductions before k, or for k itself.
//
// Of a stage, let t be the time, r and g what is done of reductions and gathers, alone, and let
// computation take c, c' beside a busy lane, and stand still for x. Lanes that are both busy take
// s times as long. Then
//   t >= r + (s - 1) g, t >= g + (s - 1) r, t <= c' + x.
// A gather covers the stage if it is at work all the time. Then all of r happens beside it, and
//   t >= s r, t >= c', g = t - (s - 1) r.
//
//===----------------------------------------------------------------------===//

#include "ComputeTimes.h"
#include "FluidRows.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace fsdp::schedule;

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

namespace {

struct Stage {
  uint32_t reduction = 0;
  double computeNs = 0;
  double reduceNs = 0; // of its reduction alone
  double nextNs = 0;   // of the next one alone; infinity if there is none
  double earlyNs = 0;  // the most of its reduction that is done before, if it is not early
  double laterNs = 0;  // the same of the next one
  double spareNs = 0;  // see addSpareTime
};

class StageFinder {
public:
  StageFinder(const Problem &problem, const CollectiveWindows &windows)
      : problem(problem), windows(windows), reductions(windows.reductions), computeNs(problem) {}
  /// Runs of stages that follow each other and have spare time.
  std::vector<std::vector<Stage>> find() const;
  /// Where stage k begins.
  uint32_t beginOf(uint32_t k) const {
    return k > 0 ? reductions[k - 1].deadline : reductions[0].ready;
  }

private:
  double reduceNs(uint32_t k) const {
    return problem.reduceCost.durationNs(reductions[k].inputBytes);
  }
  bool isUseBetween(uint32_t first, uint32_t last) const;
  double findEarlyNs(uint32_t k) const;

  const Problem &problem;
  const CollectiveWindows &windows;
  const std::vector<ReductionWindow> &reductions;
  const ComputeTimes computeNs;
};

} // namespace

bool StageFinder::isUseBetween(uint32_t first, uint32_t last) const {
  auto it = std::partition_point(windows.gathers.begin(), windows.gathers.end(),
                                 [&](const GatherWindow &gather) { return gather.first < first; });
  return it != windows.gathers.end() && it->first <= last;
}

/// Infinity if nothing is known.
double StageFinder::findEarlyNs(uint32_t k) const {
  if (k == 0 || k == reductions.size() || reductions[k].ready > beginOf(k))
    return 0;
  if (isUseBetween(reductions[k].ready, beginOf(k)))
    return kInfinity;
  return problem.computeContention * computeNs(reductions[k].ready, beginOf(k));
}

std::vector<std::vector<Stage>> StageFinder::find() const {
  std::vector<std::vector<Stage>> runs(1);
  uint32_t latest = 0; // deadline so far
  const auto size = uint32_t(reductions.size());
  for (uint32_t k = 0; k < size; ++k) {
    const uint32_t begin = beginOf(k), end = reductions[k].deadline;
    const uint32_t nextReady = k + 1 < size ? reductions[k + 1].ready : end;
    Stage stage;
    stage.reduction = k;
    stage.computeNs = computeNs(begin, end);
    stage.reduceNs = reduceNs(k);
    stage.nextNs = k + 1 < size ? reduceNs(k + 1) : kInfinity;
    stage.earlyNs = findEarlyNs(k);
    stage.laterNs = findEarlyNs(k + 1);
    stage.spareNs =
        computeNs(begin, std::min(nextReady, end)) - stage.reduceNs / problem.computeContention;
    // The next one is not ready before the stage, nor the one behind it in it.
    const bool isAlone = nextReady >= begin && (k + 2 >= size || reductions[k + 2].ready >= end);
    if (latest <= begin && begin < end && isAlone && stage.earlyNs < stage.reduceNs &&
        stage.laterNs < kInfinity && stage.spareNs > 0)
      runs.back().push_back(stage);
    else if (!runs.back().empty())
      runs.emplace_back();
    latest = std::max(latest, end);
  }
  if (runs.back().empty())
    runs.pop_back();
  return runs;
}

namespace {

/// Bounds over all stages of a run, in ns.
struct Extremes {
  double others = 0;           // s - 1
  double reduceNs = kInfinity; // the least r, if its reduction is not early
  double slowComputeNs = 0;    // the most c'
  double coverNs = kInfinity;  // the least g where a gather covers it
  double mostCoverNs = 0;      // the most, less x
  double mostNs = 0;           // the most g where none does, less x / (s - 1)
  double stallNs = kInfinity;  // the least x where a gather covers it
  double usefulNs = kInfinity; // see addSpareTime
};

} // namespace

static Extremes findExtremes(std::span<const Stage> run, double contention, double overlap) {
  Extremes result;
  const double others = result.others = overlap - 1;
  for (const Stage &stage : run) {
    const double slowComputeNs = contention * stage.computeNs;
    const double reduceNs = stage.reduceNs - stage.earlyNs;
    const double besideNs = slowComputeNs - others * reduceNs;
    result.reduceNs = std::min(result.reduceNs, reduceNs);
    result.slowComputeNs = std::max(result.slowComputeNs, slowComputeNs);
    // If its reduction is early, the next one may be as well, or is not.
    result.coverNs =
        std::min({result.coverNs, reduceNs, slowComputeNs - others * stage.laterNs, stage.nextNs});
    result.mostCoverNs = std::max(result.mostCoverNs, besideNs);
    result.mostNs =
        std::max(result.mostNs, std::min(besideNs, (slowComputeNs - reduceNs) / others));
    result.stallNs = std::min(result.stallNs, overlap * reduceNs - slowComputeNs);
    result.usefulNs = std::min(result.usefulNs, stage.spareNs * contention / others);
  }
  return result;
}

namespace {

/// A run of stages, in the program.
class StageRows {
public:
  struct Bounds {
    const Moment *begin, *end;
  };
  StageRows(const FluidRows &rows, std::span<const Stage> run, std::vector<Bounds> bounds,
            uint32_t begin, uint32_t end);
  void addSpareTime();
  void addStalls();

private:
  Expression timeOf(const Bounds &stage) const {
    return stage.end->time - Expression(stage.begin->time);
  }
  /// What lanes do from the run's begin to its end.
  Expression gatheredBytes() const;
  Expression gatherLatencies() const;
  double leastStallNs(double gatherNs, int numEnds) const;

  const FluidRows &rows;
  const std::span<const Stage> run;
  const std::vector<Bounds> bounds; // by stage
  const Extremes extremes;
  std::vector<GatherWindow> gathers;     // that may be at work during the run
  bool mayBegin = false, mayEnd = false; // one of them before the run, or behind it
};

} // namespace

StageRows::StageRows(const FluidRows &rows, std::span<const Stage> run, std::vector<Bounds> bounds,
                     uint32_t begin, uint32_t end)
    : rows(rows), run(run), bounds(std::move(bounds)),
      extremes(findExtremes(run, rows.problem.computeContention, rows.overlap)) {
  for (const GatherWindow &gather : rows.windows.gathers) {
    if (gather.first < begin || gather.gate > end)
      continue;
    gathers.push_back(gather);
    mayBegin |= gather.gate < begin;
    mayEnd |= gather.first > end;
  }
}

Expression StageRows::gatheredBytes() const {
  return bounds.back().end->gatheredBytes - Expression(bounds.front().begin->gatheredBytes);
}

Expression StageRows::gatherLatencies() const {
  return bounds.back().end->gatherLatencies - Expression(bounds.front().begin->gatherLatencies);
}

/// Without gathers a stage takes at least c, and what computation loses while its reduction is at
/// work; that is r and the spare time, or less if the next reduction is at work as well, which
/// computation waits for. Gathers use as much of the spare time as their work is of the useful
/// work.
///   touched = min(1, g / useful), t >= r + (s - 1) g + (1 - touched) spare.
///
/// A gather covers some stages, each of which takes `cover` of it, and touches two more with what
/// is left. One that has begun before the run, or ends behind it, may touch one more than in
/// proportion to its time there; its bytes there are fewer if its latency comes before them.
void StageRows::addSpareTime() {
  const double coverNs = extremes.coverNs, usefulNs = extremes.usefulNs;
  if (coverNs < usefulNs)
    return;
  double touchesPerByte = 0, latencyTouches = 0;
  for (const GatherWindow &gather : gathers) {
    if (gather.sizeBytes == 0)
      return;
    const double gatherNs = rows.problem.gatherCost.durationNs(gather.sizeBytes);
    const double covered = std::floor(std::max(0., gatherNs - 2 * usefulNs) / coverNs);
    double touches = covered + std::min(2., (gatherNs - covered * coverNs) / usefulNs);
    if (double restNs = gatherNs - (covered + 1) * coverNs; restNs >= 0)
      touches = std::max(touches, covered + 1 + restNs / usefulNs);
    latencyTouches =
        std::max(latencyTouches, touches * rows.problem.gatherCost.latencyNs / gatherNs);
    touchesPerByte =
        std::max(touchesPerByte, touches * rows.choices.byteUnit / double(gather.sizeBytes));
  }
  Expression touches = touchesPerByte * gatheredBytes(), sum;
  touches += (mayBegin ? 1 : 0) + (mayEnd ? 1 + latencyTouches : 0);
  for (size_t i = 0; i < run.size(); ++i) {
    const Moment &begin = *bounds[i].begin, &end = *bounds[i].end;
    rows.program.setPlace(rows.windows.reductions[run[i].reduction].ready);
    const Column touched = rows.program.addColumn(0, 1);
    sum += touched;
    rows.program.requireAtLeast(timeOf(bounds[i]),
                                rows.costs.reduceWork(begin, end) +
                                    extremes.others * rows.costs.gatherWork(begin, end) +
                                    run[i].spareNs / rows.timeUnitNs * (1.0 - Expression(touched)));
  }
  rows.program.requireAtLeast(touches, sum);
}

/// How long computation stands still, at least, for gathers in one bucket that take so long: they
/// cover stages and, at so many ends, reach into others.
double StageRows::leastStallNs(double gatherNs, int numEnds) const {
  const double restNs = gatherNs - numEnds * extremes.mostNs;
  if (restNs <= 0)
    return 0;
  // The more stages they cover the less has to be done while computation stands still at the ends.
  const double covered = std::floor(extremes.others * restNs /
                                    (extremes.stallNs + extremes.others * extremes.mostCoverNs));
  return std::min(extremes.others * (restNs - covered * extremes.mostCoverNs),
                  (covered + 1) * extremes.stallNs);
}

/// Computation stands still where merged gathers cover stages. Let all gathers be of one size. For
/// a bucket of n it does for at least `perMerge` (n - 1); there are as many merged ones in the run
/// as gathers less latencies, but for buckets that have begun before the run, or end behind it.
/// Where several gathers reach into a stage, what they do there beyond the most adds up to no more
/// than all of it is beyond the most.
///
/// If a reduction is early, its stage can be covered for nothing, or gathers do more at ends there;
/// but computation stood still for it, which is more than what that saves. It did so before the run
/// if it is the run's first one.
void StageRows::addStalls() {
  const double mostCoverNs = extremes.mostCoverNs, mostNs = extremes.mostNs;
  const double stallNs = extremes.stallNs, slowComputeNs = extremes.slowComputeNs;
  const bool isOneSize = std::all_of(gathers.begin(), gathers.end(), [&](const GatherWindow &it) {
    return it.sizeBytes == gathers.front().sizeBytes;
  });
  if (gathers.size() < 2 || !isOneSize || gathers.front().sizeBytes == 0 ||
      rows.costs.gatherLatency == 0 || stallNs <= 0 || mostNs <= 0 || mostCoverNs <= 0)
    return;
  const double savedNs = (slowComputeNs / mostCoverNs + slowComputeNs / (2 * mostNs) + 2) * stallNs;
  if (extremes.others * extremes.reduceNs < savedNs)
    return;

  const CollectiveCost &cost = rows.problem.gatherCost;
  const int64_t sizeBytes = gathers.front().sizeBytes;
  const double bytesNs = cost.nsPerByte * double(sizeBytes);
  double perMergeNs = kInfinity;
  for (size_t n = 2; n <= gathers.size(); ++n)
    perMergeNs =
        std::min(perMergeNs, leastStallNs(cost.latencyNs + double(n) * bytesNs, 2) / double(n - 1));
  // Of a bucket that has begun before the run, so many gathers are left; of one that ends behind
  // it, so many have ended, and its latency counts.
  constexpr double kStep = 1. / 16;
  double begunNs = 0, unendedNs = 0;
  for (double n = 0; n < double(gathers.size()); n += kStep) {
    begunNs = std::max(begunNs, perMergeNs * (n + kStep) - leastStallNs(n * bytesNs, 1));
    unendedNs = std::max(unendedNs, perMergeNs * (n + kStep - 1) -
                                        leastStallNs(cost.latencyNs + n * bytesNs, 1));
  }

  const double spentNs = (mayBegin ? begunNs : 0) + (mayEnd ? unendedNs : 0) +
                         (run.front().reduction > 0 ? savedNs : 0);

  Expression sum;
  const double slowdown = 1 - 1 / rows.problem.computeContention;
  for (size_t i = 0; i < run.size(); ++i) {
    const Moment &begin = *bounds[i].begin, &end = *bounds[i].end;
    rows.program.setPlace(rows.windows.reductions[run[i].reduction].ready);
    const Column stall = rows.program.addColumn(0, rows.horizon);
    sum += stall;
    // Computation loses no time to a busy lane while it stands still.
    auto require = [&](double gatherShare, double reduceShare) {
      rows.program.requireAtLeast(timeOf(bounds[i]),
                                  run[i].computeNs / rows.timeUnitNs +
                                      (1 - slowdown) * Expression(stall) +
                                      slowdown * (gatherShare * rows.costs.gatherWork(begin, end) +
                                                  reduceShare * rows.costs.reduceWork(begin, end)));
    };
    require(1, extremes.others);
    if (extremes.others < 1)
      require(extremes.others, 1);
  }
  const Expression merged =
      rows.choices.byteUnit / double(sizeBytes) * gatheredBytes() - gatherLatencies();
  rows.program.requireAtLeast(sum,
                              perMergeNs / rows.timeUnitNs * merged - spentNs / rows.timeUnitNs);
}

void FluidRows::addStages() {
  if (overlap <= 1 || problem.acrossCost || windows.reductions.empty())
    return;
  const StageFinder finder(problem, windows);
  auto makeRows = [&](std::span<const Stage> run) {
    std::vector<StageRows::Bounds> bounds;
    for (const Stage &stage : run) {
      const uint32_t k = stage.reduction;
      const FluidSegment &begin = segmentAt(finder.beginOf(k));
      bounds.push_back(
          {k > 0 ? &begin.start : &begin.before, &segmentAt(windows.reductions[k].deadline).start});
    }
    return StageRows(*this, run, std::move(bounds), finder.beginOf(run.front().reduction),
                     windows.reductions[run.back().reduction].deadline);
  };
  for (const std::vector<Stage> &run : finder.find()) {
    StageRows stages = makeRows(run);
    stages.addSpareTime();
    stages.addStalls();
    // Computation may stand still behind the run in any case, for the next reduction. It could as
    // well do so in the last stage, which then says nothing.
    if (run.size() > 1 && run.back().reduction + 1 < windows.reductions.size())
      makeRows(std::span(run).first(run.size() - 1)).addStalls();
  }
}
